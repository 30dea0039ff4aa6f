/** The run that a document's page shows: the last that has read or corrected it. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useRun } from '../runs/useRun';
import { isRunning } from '../runs/runReducer';
import { lastRunQuery } from './documentPageQueries';

export function useShownRun(documentId: string) {
  const queries = useQueryClient();
  const last = useQuery(lastRunQuery(documentId));
  const runId = last.data?.id ?? null;
  const { state, resume } = useRun(runId);

  // What a run changes outside of its events is asked for anew when it stands somewhere else.
  const { phase, extractionId } = state;
  useEffect(() => {
    if (runId === null || phase === 'starting') return;
    for (const one of ['extractions', 'documents', 'document', 'runs']) void queries.invalidateQueries({ queryKey: [one] });
    if (!['complete', 'failed'].includes(phase) || extractionId === null) return;
    void queries.invalidateQueries({ queryKey: ['extraction', extractionId] });
  }, [queries, runId, phase, extractionId]);

  return {
    runId,
    state,
    running: runId !== null && isRunning(state),
    start: async (id: string) => {
      const { queryKey } = lastRunQuery(documentId);
      await queries.cancelQueries({ queryKey }); // an older answer would come over this
      queries.setQueryData(queryKey, () => ({ id }));
      await queries.invalidateQueries({ queryKey });
    },
    resume,
  };
}
