/** Follows a run's events across lost connections and decisions. It knows nothing of what is generated: a service that
 * can stream, look at a run and decide a call is enough, so that the page shares it (frontend/src/api/runs.ts). */

/** What following must know of an event. */
export interface AnyEvent {
  type: string;
}

/** What following must know of a run. */
export interface RunAtRest<Call> {
  status: string;
  waits_for: Call | null;
}

/** What is asked of a service. Whatever it throws may be tried again; `isFinal` says what not. */
export interface FollowedService<Call extends { call_id: string }> {
  /** The bytes of a run's event stream, behind the event with this number. */
  stream(runId: string, after: number, deltas: boolean, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  look(runId: string): Promise<RunAtRest<Call>>;
  decide(runId: string, callId: string, decision: Decision): Promise<unknown>;
  /** Whether no second try mends this. `deciding`: it came of a decision, where 409 means that somebody was faster. */
  isFinal(error: unknown, deciding: boolean): boolean;
}

/** An event with its number. Deltas and progress are not kept: they have none. */
export interface Told<Event> {
  id?: number;
  event: Event;
}

/** A decision on a call. `input` replaces the agent's arguments. `approve_rest` also approves the run's later calls: of
 * the same tool, or all. */
export type Decision =
  | { approved: true; input?: Record<string, unknown>; approve_rest?: 'tool' | 'all' }
  | { approved: false; reason?: string };

export interface FollowOptions<Call> {
  /** The number of the last event that was seen: what follows it comes. */
  after?: number;
  /** Also what the model says while it says it. */
  deltas?: boolean;
  /** Decides the call that the run waits for, or a run that is part of it; then its events go on. Without it they end
   * at its own. Asked again where what the call would change has moved meanwhile; where somebody else has decided, the
   * events go on. */
  decide?: (call: Call) => Decision | Promise<Decision>;
  /** Called when a connection is lost, before it is made again. */
  lost?: (error: unknown) => void;
  signal?: AbortSignal;
}

const MOST_FAILURES = 6;
const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/**
 * The events of a run behind `after`, to its end or to the call that it waits for. A connection that is lost is made
 * again behind the last event that came, so none is missed or doubled. Break out of the loop to stop.
 */
export async function* follow<Event extends AnyEvent, Call extends { call_id: string }>(
  service: FollowedService<Call>,
  runId: string,
  options: FollowOptions<Call> = {},
): AsyncGenerator<Told<Event>> {
  let after = options.after ?? 0;
  let failures = 0;
  let rested = false; // it was seen to be at rest before its stream was asked for
  let part: string | undefined; // a run that is part of it, and has asked

  /** Waits a little, longer each time. Throws what no second try mends. */
  async function mayTryAgain(error: unknown, deciding: boolean): Promise<void> {
    options.signal?.throwIfAborted();
    failures += 1;
    if (service.isFinal(error, deciding) || failures > MOST_FAILURES) throw error;
    options.lost?.(error);
    await pause(Math.min(100 * 2 ** failures, 5000));
  }

  for (;;) {
    let last: Event | undefined;
    let waiting: Call | undefined;
    try {
      if (part === undefined) {
        const bytes = await service.stream(runId, after, options.deltas ?? false, options.signal);
        for await (const told of eventsOf<Event>(bytes)) {
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
        const run = await service.look(part);
        if (run.waits_for === null) {
          part = undefined;
          continue;
        }
        waiting = run.waits_for;
      }
      if (last?.type === 'complete' || last?.type === 'error') return;
      if (part === undefined) {
        // It waits for a person, or a proxy has ended the stream too early: the run itself tells which.
        const run = await service.look(runId);
        waiting = run.waits_for ?? undefined;
        const ended = ENDED.has(run.status);
        const isAll = rested && last === undefined;
        if (ended && isAll) return;
        if (waiting !== undefined && options.decide === undefined && (isAll || last?.type === 'approval')) return;
        rested = ended || waiting !== undefined;
        if (!rested) await pause(500);
      }
    } catch (error) {
      await mayTryAgain(error, false);
      continue;
    }
    if (waiting === undefined || options.decide === undefined) continue;
    const decision = await options.decide(waiting);
    try {
      await service.decide(part ?? runId, waiting.call_id, decision);
      part = undefined;
    } catch (error) {
      // Whether it was heard, or somebody else was faster, or what it would change has moved, the run tells.
      await mayTryAgain(error, true);
    }
    rested = false;
  }
}

/** Whether nothing follows this event until a person does something. */
export function isLast(event: AnyEvent): boolean {
  return event.type === 'complete' || event.type === 'error' || event.type === 'approval';
}

/** The run below the one that tells this which asks a person. */
export function partThatAsks(event: AnyEvent): string | undefined {
  let part: string | undefined;
  let told = event as AnyEvent & { run_id?: string; event?: AnyEvent };
  while (told.type === 'child' && told.event !== undefined) {
    part = told.run_id;
    told = told.event;
  }
  return told.type === 'approval' ? part : undefined;
}

async function* eventsOf<Event>(bytes: ReadableStream<Uint8Array>): AsyncGenerator<Told<Event>> {
  const reader = bytes.getReader(); // Safari cannot iterate over a stream
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const parts = text.split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) {
        const told = asTold<Event>(part);
        if (told !== undefined) yield told;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // whoever breaks out wants no more of it
  }
}

function asTold<Event>(part: string): Told<Event> | undefined {
  let id: number | undefined;
  let data = '';
  for (const line of part.split('\n')) {
    if (line.startsWith('id: ')) id = Number(line.slice(4));
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (data === '') return undefined; // a comment: a sign of life
  const event = JSON.parse(data) as Event;
  return id === undefined ? { event } : { id, event };
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}
