/** What waits for a person's eye, and how it is decided. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import type { ExtractionSummary } from '../api/types';

export const toCheckQuery = infiniteQueryOptions({
  queryKey: ['extractions', 'to check'],
  initialPageParam: null as string | null,
  queryFn: async ({ pageParam, signal }) => {
    const query = { to_check: true, status: 'completed' as const, limit: 50, ...(pageParam !== null && { before: pageParam }) };
    return (await answer(api.GET('/api/extractions', { params: { query }, signal }))) as { items: ExtractionSummary[]; next: string | null };
  },
  getNextPageParam: (last) => last.next,
  staleTime: Infinity, // what was just decided stays in its place, until somebody asks anew
});

/** Long enough for whoever works on one to have gone on with it, or to have given it up. */
const AT_WORK_MS = 2 * 60_000;

/** The newest that break what their schema says, a rule mostly: completed and changed since, or never completed for that. */
export const brokenQuery = queryOptions({
  queryKey: ['extractions', 'broken'],
  queryFn: async ({ signal }) => {
    const newest = async (status: 'completed' | 'in_progress', limit: number) =>
      (await answer(api.GET('/api/extractions', { params: { query: { status, limit } }, signal }))).items as ExtractionSummary[];
    const [completed, begun] = await Promise.all([newest('completed', 200), newest('in_progress', 50)]);
    const leftAlone = begun.filter((one) => Date.now() - Date.parse(one.updated_at) > AT_WORK_MS);
    return [...completed, ...leftAlone].filter((one) => one.valid === false);
  },
  staleTime: Infinity,
});
