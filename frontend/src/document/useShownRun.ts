/** The run that a document's page shows: the one started here, else the document's last. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useRun } from '../runs/useRun';
import { isUnderWay } from '../runs/runReducer';
import { lastRunQuery } from './documentPageQueries';

export function useShownRun(documentId: string) {
  const queries = useQueryClient();
  const [started, setStarted] = useState<string | null>(null);
  const [decisions, setDecisions] = useState(0);
  const last = useQuery(lastRunQuery(documentId));
  const runId = started ?? last.data?.id ?? null;
  const state = useRun(runId, decisions);

  // What a run changes outside of its events is asked for anew when it stands somewhere else.
  const { phase, extractionId } = state;
  useEffect(() => {
    if (runId === null || phase === 'starting') return;
    void queries.invalidateQueries({ queryKey: ['extractions'] });
    if (!['complete', 'failed'].includes(phase) || extractionId === null) return;
    void queries.invalidateQueries({ queryKey: ['extraction', extractionId] });
  }, [queries, runId, phase, extractionId]);

  return {
    runId,
    state,
    goesOn: runId !== null && isUnderWay(state),
    start: (id: string) => setStarted(id),
    decided: () => setDecisions((before) => before + 1),
  };
}
