/** Calls that wait for a decision: those of your own runs, and of others' runs if you may decide them. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Run } from '../api/types';

const LIMIT = 50;

export const waitingQuery = queryOptions({
  queryKey: ['runs', 'waiting'],
  queryFn: async ({ signal }) => {
    const query = { status: 'awaiting_approval' as const, limit: LIMIT };
    return (await api.get('/api/runs', { query, signal })) as unknown as { items: Run[]; next: string | null };
  },
  refetchInterval: 4000, // the next call of a run comes seconds after a decision
});

const MAX_PAGES = 5; // those whose rows are loaded, and that are approved at once
const PAGE = 100;

/** The runs that wait for a decision on a row of a stack. */
export const waitingRowsQuery = (stackId: string) =>
  queryOptions({
    queryKey: ['runs', 'waiting rows', stackId],
    queryFn: async ({ signal }) => {
      const runs: Run[] = [];
      let before: string | null = null;
      for (let page = 0; page < MAX_PAGES; page += 1) {
        const query = {
          status: 'awaiting_approval' as const,
          stack_id: stackId,
          limit: PAGE,
          ...(before !== null && { before }),
        };
        const found = (await api.get('/api/runs', { query, signal })) as unknown as {
          items: Run[];
          next: string | null;
        };
        runs.push(...found.items.filter((run) => run.extraction_id !== null && run.waits_for !== null));
        before = found.next;
        if (before === null) break;
      }
      return runs;
    },
    refetchInterval: 4000,
  });

/** A run that waits for a decision. Polled, since someone else may decide or cancel it. */
export const waitingRunQuery = (runId: string) =>
  queryOptions({
    queryKey: ['runs', 'one that waits', runId],
    queryFn: async ({ signal }) => (await api.get('/api/runs/{run_id}', { path: { run_id: runId }, signal })) as Run,
    refetchInterval: 3000,
    staleTime: 0,
    gcTime: 0,
  });

/** Evidence of the values that a call would write. */
export const proposedFieldsQuery = (runId: string, callId: string) =>
  queryOptions({
    queryKey: ['proposed fields', runId, callId],
    queryFn: ({ signal }) => api.get('/api/runs/{run_id}/proposed', { path: { run_id: runId }, signal }),
    staleTime: Infinity,
    retry: false,
  });
