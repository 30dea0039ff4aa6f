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

/** The newest that could not be completed, since something speaks against them that their schema says: a rule, mostly. */
export const notCompletedQuery = queryOptions({
  queryKey: ['extractions', 'not completed'],
  queryFn: async ({ signal }) => {
    const query = { status: 'in_progress' as const, limit: 50 };
    const { items } = (await answer(api.GET('/api/extractions', { params: { query }, signal }))) as { items: ExtractionSummary[] };
    return items.filter((one) => one.valid === false && Date.now() - Date.parse(one.updated_at) > AT_WORK_MS);
  },
  staleTime: Infinity,
});
