/** Follows a run for as long as a component is there: from its beginning, so a reload goes on where it was. */

import { useEffect, useReducer } from 'react';
import type { Told } from '@fieldmark/following';
import { followRun } from '../api/runs';
import type { RunEvent } from '../api/types';
import { sentenceOf } from '../shared/Notice';
import { BEGINNING, runReducer, type RunState } from './runReducer';

/** `runId` null: there is none. `again`: another value follows it anew, behind a decision say. */
export function useRun(runId: string | null, again: unknown = null): RunState {
  const [state, dispatch] = useReducer(runReducer, BEGINNING);
  useEffect(() => {
    dispatch({ type: 'begin' });
    if (runId === null) return undefined;
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
      for await (const told of followRun(runId, { deltas: true, lost, signal: controller.signal })) {
        if (controller.signal.aborted) return;
        gathered.push(told);
        timer ??= setTimeout(flush, 16);
      }
    };
    follow().catch((error: unknown) => {
      if (controller.signal.aborted) return;
      const event = { type: 'error', error: sentenceOf(error), code: 'not_followed', run_id: runId } as unknown as RunEvent;
      gathered.push({ event });
      flush();
    });
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [runId, again]);
  return state;
}
