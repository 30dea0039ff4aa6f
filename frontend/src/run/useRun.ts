/** Follows a run, from its first event, while the component is mounted. */

import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useReducer, useRef, useState } from 'react';
import type { NumberedEvent } from '@fieldmark/following';
import { ApiError } from '../api/client';
import { followRun } from '../api/runs';
import { waitingRunQuery } from './approvalQueries';
import type { RunEvent } from '../api/types';
import { errorMessage } from '../components/ui/Notice';
import { INITIAL_STATE, runReducer, type RunState } from './runReducer';

const FORGOTTEN = 'events_forgotten';

/** Return the state of a run, and `resume`, which follows it again after its last event: the stream ends while the run
 * waits for a decision. A run that could not be followed begins again. Decisions made elsewhere are noticed by polling. `runId` null: no run. */
export function useRun(runId: string | null): { state: RunState; resume: () => void } {
  const [state, dispatch] = useReducer(runReducer, INITIAL_STATE);
  const [times, setTimes] = useState(0);
  const resume = useCallback(() => setTimes((before) => before + 1), []);
  const last = useRef(0);
  last.current = state.lastId;
  const isLost = useRef(false);
  isLost.current = state.error?.code === 'not_followed';

  const asked = state.approval;
  const { data: asking } = useQuery({ ...waitingRunQuery(asked?.runId ?? ''), enabled: asked !== null });
  const isDecided =
    asked !== null &&
    asking !== undefined &&
    asking.id === asked.runId &&
    asking.waits_for?.call_id !== asked.call.call_id;
  const decided = isDecided ? asked.call.call_id : null;
  useEffect(() => {
    if (decided === null) return;
    dispatch({ type: 'decided', callId: decided });
    resume();
  }, [decided, resume]);

  const followed = useRef<string | null>(null);
  useEffect(() => {
    const isSame = followed.current === runId && !isLost.current;
    followed.current = runId;
    if (!isSame) dispatch({ type: 'begin' });
    if (runId === null) return undefined;
    const after = isSame ? last.current : 0;
    const controller = new AbortController();
    let gathered: NumberedEvent<RunEvent>[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Batch events into one render. (Not with requestAnimationFrame: it pauses in background tabs.)
    const flush = () => {
      timer = undefined;
      const events = gathered;
      gathered = [];
      dispatch({ type: 'events', events, at: performance.now() });
    };
    const follow = async () => {
      const lost = () => dispatch({ type: 'lost' });
      for await (const received of followRun(runId, { after, deltas: true, lost, signal: controller.signal })) {
        if (controller.signal.aborted) return;
        gathered.push(received);
        timer ??= setTimeout(flush, 16);
      }
    };
    follow().catch((error: unknown) => {
      if (controller.signal.aborted) return;
      const event = {
        type: 'error',
        error: errorMessage(error),
        code: error instanceof ApiError && error.problem?.code === FORGOTTEN ? FORGOTTEN : 'not_followed',
        run_id: runId,
      } as unknown as RunEvent;
      gathered.push({ event });
      flush();
    });
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [runId, times]);
  return { state, resume };
}
