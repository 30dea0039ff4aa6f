/** The queue of what needs review: the shown extractions of documents that do, then their other extractions. */

import { infiniteQueryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';

export interface ToReview {
  /** The extraction's id. */
  id: string;
  document_id: string;
}

interface QueuePage {
  of: 'documents' | 'extractions';
  before: string | null;
}

async function fetchPage(
  { of, before }: QueuePage,
  signal: AbortSignal,
): Promise<{ items: ToReview[]; next: string | null }> {
  const page = { limit: 50, ...(before !== null && { before }) };
  if (of === 'extractions')
    return dataOf(api.GET('/api/extractions', { params: { query: { to_check: true, ...page } }, signal }));
  const { items, next } = await dataOf(
    api.GET('/api/documents', { params: { query: { stage: 'needs_review', ...page } }, signal }),
  );
  return {
    items: items.flatMap((one) =>
      one.shown_extraction_id === null ? [] : [{ id: one.shown_extraction_id, document_id: one.id }],
    ),
    next,
  };
}

export const queueQuery = infiniteQueryOptions({
  queryKey: ['review queue'],
  initialPageParam: { of: 'documents', before: null } as QueuePage,
  queryFn: async ({ pageParam, signal }) => {
    const { items, next } = await fetchPage(pageParam, signal);
    const following: QueuePage | null =
      next !== null
        ? { of: pageParam.of, before: next }
        : pageParam.of === 'documents'
          ? { of: 'extractions', before: null }
          : null;
    return { items: items.map(({ id, document_id }) => ({ id, document_id })), next: following };
  },
  getNextPageParam: (last) => last.next,
  staleTime: Infinity, // the order must not change while the person works through the queue
  refetchOnMount: 'always',
});
