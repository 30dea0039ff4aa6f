/** Queries for documents and tags. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Document } from '../api/types';
import type { DocumentFilter } from './filter';
import { DAY_MS } from '../shared/format';

const PAGE = 100;

export const documentsQuery = (filter: DocumentFilter) =>
  infiniteQueryOptions({
    queryKey: ['documents', filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      api.get('/api/documents', {
        query: {
          limit: PAGE,
          details: true,
          ...(pageParam !== null && { before: pageParam }),
          ...conditionsOf(filter),
          ...(filter.sort !== undefined && { sort: filter.sort, descending: filter.descending === true }),
        },
        signal,
      }),
    getNextPageParam: (last) => last.next,
    // Poll faster while documents are being processed.
    refetchInterval: ({ state }) => {
      const stages = new Set(state.data?.pages.flatMap((page) => page.items.map((one) => one.stage)));
      return stages.has('processing') ? 1000 : stages.has('extracting') ? 3000 : 15_000;
    },
  });

function conditionsOf(filter: DocumentFilter) {
  return {
    ...(filter.name !== undefined && { filename: filter.name }),
    ...(filter.status !== undefined && { stage: filter.status }),
    ...(filter.tag !== undefined && { tag_id: filter.tag }),
    ...(filter.since !== undefined && { since: `${filter.since}T00:00:00Z` }),
    ...(filter.until !== undefined && { until: dayAfter(filter.until) }),
  };
}

function dayAfter(day: string): string {
  return new Date(Date.parse(day) + DAY_MS).toISOString();
}

export const documentQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['document', documentId],
    queryFn: ({ signal }) => api.get('/api/documents/{document_id}', { path: { document_id: documentId }, signal }),
    refetchInterval: ({ state }) => (state.data?.status === 'reading' ? 700 : false),
  });

/** The number of documents that match, with their pages and bytes, and what reading one costs on average. */
export const totalsQuery = (filter: DocumentFilter) =>
  queryOptions({
    queryKey: ['documents', 'count', conditionsOf(filter)],
    queryFn: ({ signal }) => api.get('/api/documents/count', { query: conditionsOf(filter), signal }),
    refetchInterval: 15_000,
  });

/** The number of documents with a status. */
export const countQuery = (stage: Document['stage']) =>
  queryOptions({ ...totalsQuery({ status: stage }), select: ({ count }) => count });

export const tagsQuery = queryOptions({
  queryKey: ['tags'],
  queryFn: () => api.get('/api/tags', { query: { limit: 200 } }),
  staleTime: 60_000,
});
