/** Queries for stacks. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Stack } from '../api/types';

const PAGE = 50;
/** Of the newest run with changes, that are shown. */
export const MAX_CHANGES = 200;

export const stacksQuery = infiniteQueryOptions({
  queryKey: ['stacks', 'list'],
  initialPageParam: null as string | null,
  queryFn: ({ pageParam, signal }) =>
    api.get('/api/stacks', { query: { limit: PAGE, ...(pageParam !== null && { before: pageParam }) }, signal }),
  getNextPageParam: (last) => last.next,
  refetchInterval: 10_000,
});

export const stackQuery = (stackId: string) =>
  queryOptions({
    queryKey: ['stacks', 'one', stackId],
    queryFn: async ({ signal }) =>
      (await api.get('/api/stacks/{stack_id}', { path: { stack_id: stackId }, signal })) as Stack,
    // Files that are being read, and rows that are read again, change without a run of the stack.
    refetchInterval: ({ state: { data } }) =>
      data !== undefined && (isBusy(data) || data.progress.waiting + data.progress.running > 0) ? 3000 : 15_000,
  });

/** The values that the newest run with changes on a stack replaced. */
export const replacedQuery = (stackId: string) =>
  queryOptions({
    queryKey: ['stacks', 'changes', stackId],
    queryFn: ({ signal }) =>
      api.get('/api/stacks/{stack_id}/changes', { path: { stack_id: stackId }, query: { limit: MAX_CHANGES }, signal }),
  });

/** Whether the agent is filling the table, or waits for a decision. */
export function isBusy({ run }: Pick<Stack, 'run'>): boolean {
  return run !== null && !['completed', 'failed', 'cancelled'].includes(run.status);
}
