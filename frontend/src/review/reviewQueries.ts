/** What waits for a person's eye, and how it is decided. */

import { infiniteQueryOptions } from '@tanstack/react-query';
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
