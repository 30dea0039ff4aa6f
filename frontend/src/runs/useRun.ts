/** Follows a run for as long as a component is there: from its beginning, so a reload goes on where it was. */

import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useReducer, useRef, useState } from 'react';
import type { Told } from '@fieldmark/following';
import { followRun } from '../api/runs';
import { waitingRunQuery } from '../approvals/approvalQueries';
import type { RunEvent } from '../api/types';
import { errorMessage } from '../shared/Notice';
import { INITIAL_STATE, runReducer, type RunState } from './runReducer';

/** Return the state of a run, and `resume`, which follows it behind its last event: its stream ends while it waits for a
 * decision. A decision or a cancellation somewhere else is noticed, too. `runId` null: there is none. */
export function useRun(runId: string | null): { state: RunState; resume: () => void } {
  const [state, dispatch] = useReducer(runReducer, INITIAL_STATE);
  const [times, setTimes] = useState(0);
  const resume = useCallback(() => setTimes((before) => before + 1), []);
  const last = useRef(0);
  last.current = state.lastId;

  const asked = state.approval;
  const { data: asking } = useQuery({ ...waitingRunQuery(asked?.runId ?? ''), enabled: asked !== null });
  const isDecided = asked !== null && asking !== undefined && asking.id === asked.runId && asking.waits_for?.call_id !== asked.call.call_id;
  useEffect(() => {
    if (isDecided) resume();
  }, [isDecided, resume, asking]);

  const followed = useRef<string | null>(null);
  useEffect(() => {
    const isSame = followed.current === runId;
    followed.current = runId;
    if (!isSame) dispatch({ type: 'begin' });
    if (runId === null) return undefined;
    const after = isSame ? last.current : 0;
    const controller = new AbortController();
    let gathered: Told<RunEvent>[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Many events at once are one drawing. (No animation frame: a tab in the background has none.)
    const flush = () => {
      timer = undefined;
      const told = gathered;
      gathered = [];
      dispatch({ type: 'told', told, at: performance.now() });
    };
    const follow = async () => {
      const lost = () => dispatch({ type: 'lost' });
      for await (const told of followRun(runId, { after, deltas: true, lost, signal: controller.signal })) {
        if (controller.signal.aborted) return;
        gathered.push(told);
        timer ??= setTimeout(flush, 16);
      }
    };
    follow().catch((error: unknown) => {
      if (controller.signal.aborted) return;
      const event = { type: 'error', error: errorMessage(error), code: 'not_followed', run_id: runId } as unknown as RunEvent;
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
