/** Fieldmark's API: what is generated from its description, and a layer for events, resuming and approvals. */

import { createClient, createConfig, type Client } from './generated/client/index.js';
import { decideCall, getRun, startExtract } from './generated/sdk.gen.js';
import type {
  Problem, RunAccepted, RunEvent, RunStatus, StartExtractData, WaitingCall,
} from './generated/types.gen.js';

export * from './generated/index.js';

/** What the service refused, and why. `problem.code` is stable. */
export class FieldmarkError extends Error {
  override readonly name = 'FieldmarkError';

  constructor(
    readonly status: number,
    readonly problem: Problem | undefined,
  ) {
    super(problem?.detail ?? `The service answered with ${status}.`);
  }
}

/** An event with its number. Deltas and progress are not kept: they have none. */
export interface Told {
  id?: number;
  event: RunEvent;
}

/** What a person says of a call. `input`: other arguments than the agent's. */
export type Decision =
  | { approved: true; input?: Record<string, unknown> }
  | { approved: false; reason?: string };

export interface FollowOptions {
  /** The number of the last event that was seen: what follows it comes. */
  after?: number;
  /** Also what the model says while it says it. */
  deltas?: boolean;
  /** Decides the call that the run waits for, or a run that is part of it; then its events go on. Without it they end
   * at its own. Asked again where what the call would change has moved meanwhile; where somebody else has decided, the
   * events go on. */
  decide?: (call: WaitingCall) => Decision | Promise<Decision>;
  signal?: AbortSignal;
}

const MOST_FAILURES = 6;
const ENDED: ReadonlySet<RunStatus> = new Set<RunStatus>(['completed', 'failed', 'cancelled']);

/** A service, and who asks it: a key (`fm_…`) or a token, and one of the caller's organisations. */
export class Fieldmark {
  readonly client: Client;

  constructor(options: { baseUrl: string; key: string; organisationId?: string }) {
    const headers = options.organisationId === undefined ? {} : { 'X-Org-Id': options.organisationId };
    this.client = createClient(createConfig({ baseUrl: options.baseUrl, auth: () => options.key, headers }));
    this.client.interceptors.error.use((problem, response) => {
      // Without a response nobody was reached; that says its own.
      return response === undefined ? problem : new FieldmarkError(response.status, asProblem(problem));
    });
  }

  /** Spread into a generated function's options: this client, and what it refuses is thrown as a FieldmarkError. */
  get call(): { client: Client; throwOnError: true } {
    return { client: this.client, throwOnError: true };
  }

  /** Starts an extraction; it goes on by itself. */
  async extract(body: StartExtractData['body']): Promise<RunAccepted> {
    const { data } = await startExtract({ ...this.call, body: { ...body, wait: false } });
    return data as RunAccepted; // so `wait: false` is answered
  }

  /**
   * The events of a run behind `after`, to its end or to the call that it waits for. A connection that is lost is made
   * again behind the last event that came, so none is missed or doubled. Break out of the loop to stop.
   */
  async *follow(runId: string, options: FollowOptions = {}): AsyncGenerator<Told> {
    let after = options.after ?? 0;
    let failures = 0;
    let rested = false; // it was seen to be at rest before its stream was asked for
    let part: string | undefined; // a run that is part of it, and has asked
    for (;;) {
      let last: RunEvent | undefined;
      let waiting: WaitingCall | undefined;
      try {
        if (part === undefined) {
          for await (const told of this.#stream(runId, after, options)) {
            failures = 0;
            if (told.id !== undefined) {
              after = told.id;
              last = told.event;
            }
            yield told;
            part = options.decide === undefined ? undefined : partThatAsks(told.event);
            if (part !== undefined) break;
          }
        }
        if (part !== undefined) {
          const { data } = await getRun({ ...this.call, path: { run_id: part } });
          if (data.waits_for === null) {
            part = undefined;
            continue;
          }
          waiting = data.waits_for;
        }
        if (last?.type === 'complete' || last?.type === 'error') return;
        if (part === undefined) {
          // It waits for a person, or a proxy has ended the stream too early: the run itself tells which.
          const { data: run } = await getRun({ ...this.call, path: { run_id: runId } });
          waiting = run.waits_for ?? undefined;
          const ended = ENDED.has(run.status);
          const isAll = rested && last === undefined;
          if (ended && isAll) return;
          if (waiting !== undefined && options.decide === undefined && (isAll || last?.type === 'approval')) return;
          rested = ended || waiting !== undefined;
          if (!rested) await pause(500);
        }
      } catch (error) {
        await this.#mayTryAgain(error, ++failures, options.signal);
        continue;
      }
      if (waiting === undefined || options.decide === undefined) continue;
      const decision = await options.decide(waiting);
      try {
        await this.decide(part ?? runId, waiting.call_id, decision);
        part = undefined;
      } catch (error) {
        // Whether it was heard, or somebody else was faster, or what it would change has moved, the run tells.
        await this.#mayTryAgain(error, ++failures, options.signal, 409);
      }
      rested = false;
    }
  }

  /** Say what becomes of the call that a run waits for. When this answers, it is done, and the run goes on. */
  async decide(runId: string, callId: string, decision: Decision): Promise<RunAccepted> {
    const { data } = await decideCall({
      ...this.call,
      body: { run_id: runId, approvals: [{ call_id: callId, ...decision }], wait: false },
    });
    return data as RunAccepted; // so `wait: false` is answered
  }

  /** Waits a little, longer each time. Throws what no second try mends. */
  async #mayTryAgain(error: unknown, failures: number, signal?: AbortSignal, also = 429): Promise<void> {
    signal?.throwIfAborted();
    if (error instanceof FieldmarkError && error.status < 500 && ![429, also].includes(error.status)) throw error;
    if (failures > MOST_FAILURES) throw error;
    await pause(Math.min(100 * 2 ** failures, 5000));
  }

  async *#stream(runId: string, after: number, options: FollowOptions): AsyncGenerator<Told> {
    const { data } = await this.client.get<ReadableStream<Uint8Array>, Problem, true>({
      url: '/api/runs/{run_id}/events',
      path: { run_id: runId },
      query: { deltas: options.deltas ?? false },
      headers: { 'Last-Event-ID': String(after) },
      security: [{ scheme: 'bearer', type: 'http' }],
      parseAs: 'stream',
      signal: options.signal ?? null,
      throwOnError: true,
    });
    const decoder = new TextDecoder();
    let text = '';
    for await (const bytes of data as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
      const parts = text.split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) {
        const told = asTold(part);
        if (told !== undefined) yield told;
      }
    }
  }
}

/** Whether nothing follows this event until a person does something. */
export function isLast(event: RunEvent): boolean {
  return event.type === 'complete' || event.type === 'error' || event.type === 'approval';
}

/** The run below the one that tells this which asks a person. */
function partThatAsks(event: RunEvent): string | undefined {
  let part: string | undefined;
  let told = event;
  while (told.type === 'child') {
    part = told.run_id;
    told = told.event;
  }
  return told.type === 'approval' ? part : undefined;
}

function asTold(part: string): Told | undefined {
  let id: number | undefined;
  let data = '';
  for (const line of part.split('\n')) {
    if (line.startsWith('id: ')) id = Number(line.slice(4));
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (data === '') return undefined; // a comment: a sign of life
  const event = JSON.parse(data) as RunEvent;
  return id === undefined ? { event } : { id, event };
}

function asProblem(answer: unknown): Problem | undefined {
  return typeof answer === 'object' && answer !== null && 'detail' in answer ? (answer as Problem) : undefined;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}
