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

/** The requests that `follow` sends. Errors are retried unless `isFinal` returns true. */
export interface FollowedService<Call extends { call_id: string }> {
  /** Return the bytes of a run's event stream, after the event with this number. */
  stream(runId: string, after: number, deltas: boolean, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  look(runId: string): Promise<RunAtRest<Call>>;
  decide(runId: string, callId: string, decision: Decision): Promise<unknown>;
  /** Whether a retry cannot help. `deciding`: the error is of a decision, where 409 means that it was already decided. */
  isFinal(error: unknown, deciding: boolean): boolean;
}

/** An event with its number. Deltas and progress events are not stored and have no number. */
export interface NumberedEvent<Event> {
  id?: number;
  event: Event;
}

/** A decision on a call. `input` replaces the agent's arguments. `approve_rest` also approves the run's later calls: of
 * the same tool, or all. */
export type Decision =
  | { approved: true; input?: Record<string, unknown>; approve_rest?: 'tool' | 'all' }
  | { approved: false; reason?: string };

export interface FollowOptions<Call> {
  /** The number of the last event seen. Events after it are returned. */
  after?: number;
  /** Also return partial model output. */
  deltas?: boolean;
  /** Decide the call that the run or one of its child runs waits for; then the events continue. Without it, the events
   * end at the run's own waiting call. Called again if the target of the call has changed. If the call was decided
   * elsewhere, the events continue. */
  decide?: (call: Call) => Decision | Promise<Decision>;
  /** Called when the connection is lost, before reconnecting. */
  lost?: (error: unknown) => void;
  signal?: AbortSignal;
}

const MOST_FAILURES = 6;
const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/**
 * Return the events of a run after `after`, until it ends or waits for a call. After a lost connection it reconnects at
 * the last event, so that no event is missed or repeated. Break out of the loop to stop.
 */
export async function* follow<Event extends AnyEvent, Call extends { call_id: string }>(
  service: FollowedService<Call>,
  runId: string,
  options: FollowOptions<Call> = {},
): AsyncGenerator<NumberedEvent<Event>> {
  let after = options.after ?? 0;
  let failures = 0;
  let rested = false; // it was seen to be at rest before its stream was asked for
  let part: string | undefined; // a run that is part of it, and has asked

  /** Wait with exponential backoff. Throw errors that a retry cannot fix. */
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
        for await (const current of eventsOf<Event>(bytes)) {
          failures = 0;
          if (current.id !== undefined) {
            after = current.id;
            last = current.event;
          }
          yield current;
          part = options.decide === undefined ? undefined : partThatAsks(current.event);
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
        // Either the run waits for a decision, or a proxy ended the stream: the run's status shows which.
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
      // Sent, decided elsewhere, or target changed: the run's state shows which.
      await mayTryAgain(error, true);
    }
    rested = false;
  }
}

/** Whether nothing follows this event until a person does something. */
export function isLast(event: AnyEvent): boolean {
  return event.type === 'complete' || event.type === 'error' || event.type === 'approval';
}

/** Return the child run that waits for a decision. */
export function partThatAsks(event: AnyEvent): string | undefined {
  let part: string | undefined;
  let current = event as AnyEvent & { run_id?: string; event?: AnyEvent };
  while (current.type === 'child' && current.event !== undefined) {
    part = current.run_id;
    current = current.event;
  }
  return current.type === 'approval' ? part : undefined;
}

async function* eventsOf<Event>(bytes: ReadableStream<Uint8Array>): AsyncGenerator<NumberedEvent<Event>> {
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
        const current = parseEvent<Event>(part);
        if (current !== undefined) yield current;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the consumer has stopped reading
  }
}

function parseEvent<Event>(part: string): NumberedEvent<Event> | undefined {
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
