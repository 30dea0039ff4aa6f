/** The documents of the organisation, as the service has them. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import type { DocumentFilter } from './filter';

const PAGE = 100;

export const documentsQuery = (filter: DocumentFilter) =>
  infiniteQueryOptions({
    queryKey: ['documents', filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      answer(
        api.GET('/api/documents', {
          params: {
            query: {
              limit: PAGE,
              ...(pageParam !== null && { before: pageParam }),
              ...(filter.name !== undefined && { filename: filter.name }),
              ...(filter.status !== undefined && { status: filter.status }),
              ...(filter.tag !== undefined && { tag_id: filter.tag }),
            },
          },
          signal,
        }),
      ),
    getNextPageParam: (last) => last.next,
    // One that is being read tells how far it is only when it is asked.
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some((one) => one.status === 'reading')) ? 1000 : 60_000,
  });

export const documentQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['document', documentId],
    queryFn: ({ signal }) =>
      answer(api.GET('/api/documents/{document_id}', { params: { path: { document_id: documentId } }, signal })),
    refetchInterval: ({ state }) => (state.data?.status === 'reading' ? 700 : false),
  });

export const tagsQuery = queryOptions({
  queryKey: ['tags'],
  queryFn: () => answer(api.GET('/api/tags', { params: { query: { limit: 200 } } })),
  staleTime: 60_000,
});

/** The newest extraction of each of the newest documents: enough for what is seen first. */
export const latestExtractionsQuery = queryOptions({
  queryKey: ['extractions', 'latest'],
  queryFn: async ({ signal }) => {
    const { items } = await answer(api.GET('/api/extractions', { params: { query: { limit: 200 } }, signal }));
    const latest = new Map<string, (typeof items)[number]>();
    for (const one of items) if (!latest.has(one.document_id)) latest.set(one.document_id, one);
    return { latest, isAll: items.length < 200 };
  },
});

/** Of one document that is not among those. */
export const lastExtractionQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['extractions', 'of', documentId],
    queryFn: async ({ signal }) => {
      const query = { document_id: documentId, limit: 1 };
      const { items } = await answer(api.GET('/api/extractions', { params: { query }, signal }));
      return items[0] ?? null;
    },
    staleTime: 60_000,
  });
