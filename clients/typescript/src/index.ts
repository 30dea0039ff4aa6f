/** Fieldmark's API: what is generated from its description, and a layer for events, resuming and approvals. */

import { follow, type Decision, type FollowOptions as AnyFollowOptions, type NumberedEvent as AnyNumberedEvent } from './following.js';
import { createClient, createConfig, type Client } from './generated/client/index.js';
import { decideCall, getRun, startExtract } from './generated/sdk.gen.js';
import type { Problem, RunAccepted, RunEvent, StartExtractData, WaitingCall } from './generated/types.gen.js';

export * from './generated/index.js';
export { isLast, type Decision } from './following.js';

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

export type Key = string | (() => string | undefined | Promise<string | undefined>);
export type NumberedEvent = AnyNumberedEvent<RunEvent>;
export type FollowOptions = AnyFollowOptions<WaitingCall>;

/** A service, and who asks it: a key (`fm_…`) or a token, and one of the caller's organisations. For a token that is
 * refreshed, such as a session's of Supabase, give a function: it is called for each request. */
export class Fieldmark {
  readonly client: Client;

  constructor(options: { baseUrl: string; key: Key; organisationId?: string }) {
    const organisation = options.organisationId === undefined ? {} : { 'X-Org-Id': options.organisationId };
    // Otherwise a call that starts a run answers with the stream of its events, which is what `follow` is for.
    const headers = { Accept: 'application/json', ...organisation };
    this.client = createClient(createConfig({ baseUrl: options.baseUrl, auth: () => (typeof options.key === 'function' ? options.key() : options.key), headers }));
    this.client.interceptors.error.use((problem, response) => {
      // Without a response the service was not reached; that error explains itself.
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
  follow(runId: string, options: FollowOptions = {}): AsyncGenerator<NumberedEvent> {
    return follow<RunEvent, WaitingCall>(
      {
        stream: (id, after, deltas, signal) => this.#stream(id, after, deltas, signal),
        look: async (id) => (await getRun({ ...this.call, path: { run_id: id } })).data,
        decide: (id, callId, decision) => this.decide(id, callId, decision),
        isFinal: (error, deciding) =>
          error instanceof FieldmarkError && error.status < 500 && error.status !== 429 && !(deciding && error.status === 409),
      },
      runId,
      options,
    );
  }

  /** Say what becomes of the call that a run waits for. When this answers, it is done, and the run goes on. */
  async decide(runId: string, callId: string, decision: Decision): Promise<RunAccepted> {
    const { data } = await decideCall({
      ...this.call,
      body: { run_id: runId, approvals: [{ call_id: callId, ...decision }], wait: false },
    });
    return data as RunAccepted; // so `wait: false` is answered
  }

  async #stream(id: string, after: number, deltas: boolean, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const { data } = await this.client.get<ReadableStream<Uint8Array>, Problem, true>({
      url: '/api/runs/{run_id}/events',
      path: { run_id: id },
      query: { deltas },
      headers: { 'Last-Event-ID': String(after) },
      security: [{ scheme: 'bearer', type: 'http' }],
      parseAs: 'stream',
      signal: signal ?? null,
      throwOnError: true,
    });
    return data as unknown as ReadableStream<Uint8Array>;
  }
}

function asProblem(answer: unknown): Problem | undefined {
  return typeof answer === 'object' && answer !== null && 'detail' in answer ? (answer as Problem) : undefined;
}
