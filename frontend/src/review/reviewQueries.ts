/** The queue of documents that need review. */

import { infiniteQueryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';

export interface ToReview {
  /** The extraction's id. */
  id: string;
  document_id: string;
}

export const queueQuery = infiniteQueryOptions({
  queryKey: ['review queue'],
  initialPageParam: null as string | null,
  queryFn: async ({ pageParam, signal }) => {
    const query = { stage: 'needs_review' as const, limit: 50, ...(pageParam !== null && { before: pageParam }) };
    const { items, next } = await dataOf(api.GET('/api/documents', { params: { query }, signal }));
    const waiting = items.flatMap((one): ToReview[] => (one.shown_extraction_id === null ? [] : [{ id: one.shown_extraction_id, document_id: one.id }]));
    return { items: waiting, next };
  },
  getNextPageParam: (last) => last.next,
  staleTime: Infinity, // the order must not change while the person works through the queue
  refetchOnMount: 'always',
});
