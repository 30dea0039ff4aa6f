/** The run that the document page shows: the latest extraction or correction. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useRun } from '../run/useRun';
import { isRunning } from '../run/runReducer';
import { lastRunQuery } from '../fields/extractionQueries';
import { refresh } from '../api/queryKeys';

const NOTHING_CHANGED: ReadonlyMap<string, number> = new Map();

export function useShownRun(documentId: string) {
  const queries = useQueryClient();
  const last = useQuery(lastRunQuery(documentId));
  const runId = last.data?.id ?? null;
  const { state, resume } = useRun(runId);

  // Load again what a run changes besides what its events report.
  const { phase, extractionId } = state;
  useEffect(() => {
    if (runId === null || phase === 'starting') return;
    void refresh(queries, 'extractions', 'documents', 'document', 'runs');
    if (!['complete', 'failed'].includes(phase) || extractionId === null) return;
    void refresh(queries, ['extraction', extractionId]);
  }, [queries, runId, phase, extractionId]);

  // Of a run that has ended, the steps are still loading.
  const hasEnded = ['completed', 'failed', 'cancelled'].includes(last.data?.status ?? '');
  const running = runId !== null && isRunning(state) && !hasEnded;
  const [isLive, setLive] = useState(false);
  if (running && !isLive) setLive(true);
  return {
    runId,
    state,
    running,
    /** The fields that it changed while this page was open. */
    changed: isLive ? state.changed : NOTHING_CHANGED,
    start: async (id: string) => {
      const { queryKey } = lastRunQuery(documentId);
      await queries.cancelQueries({ queryKey }); // an older response would overwrite this
      queries.setQueryData(queryKey, () => ({ id }));
      await queries.invalidateQueries({ queryKey });
    },
    resume,
  };
}
