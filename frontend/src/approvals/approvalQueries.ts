/** What waits for somebody's decision: calls of your runs, and of others' where you decide these. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { Run } from '../api/types';

export const MOST = 50;

export const waitingQuery = queryOptions({
  queryKey: ['runs', 'waiting'],
  queryFn: async ({ signal }) => {
    const query = { status: 'awaiting_approval' as const, limit: MOST };
    return (await dataOf(api.GET('/api/runs', { params: { query }, signal }))) as unknown as { items: Run[]; next: string | null };
  },
  refetchInterval: 4000, // the next call of a run comes seconds after a decision
});

/** A run that waits for a decision. Somebody else may decide it, or cancel it. */
export const waitingRunQuery = (runId: string) =>
  queryOptions({
    queryKey: ['runs', 'one that waits', runId],
    queryFn: async ({ signal }) => (await dataOf(api.GET('/api/runs/{run_id}', { params: { path: { run_id: runId } }, signal }))) as Run,
    refetchInterval: 3000,
    staleTime: 0,
    gcTime: 0,
  });

/** Where the values that a call would write are on the pages. */
export const proposedFieldsQuery = (runId: string, callId: string) =>
  queryOptions({
    queryKey: ['proposed fields', runId, callId],
    queryFn: ({ signal }) => dataOf(api.GET('/api/runs/{run_id}/proposed', { params: { path: { run_id: runId } }, signal })),
    staleTime: Infinity,
    retry: false,
  });
