/** What waits for a person, and the answers that the service found on the page. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api, dataOf } from '../api/client';
import type { components } from '../api/description';
import type { InboxView } from './inboxView';

export type InboxItem = components['schemas']['InboxItem'];
export type CandidateAnswer = components['schemas']['CandidateAnswer'];
export const inboxQuery = (view: InboxView, limit = 50) =>
  infiniteQueryOptions({
    queryKey: ['inbox', view, limit],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) => {
      const until = view.days === undefined ? undefined : new Date(Date.now() - view.days * 86_400_000).toISOString();
      const query = {
        limit,
        ...(pageParam !== null && { before: pageParam }),
        ...(view.kind !== undefined && { kind: view.kind }),
        ...(view.schema !== undefined && { schema_id: view.schema }),
        ...(view.person !== undefined && { created_by: view.person }),
        ...(until !== undefined && { until }),
      };
      return dataOf(api.GET('/api/inbox', { params: { query }, signal }));
    },
    getNextPageParam: (last) => last.next,
    refetchInterval: 5000,
  });

export const answersQuery = (extractionId: string, version: number, path: string) =>
  queryOptions({
    queryKey: ['answers', extractionId, version, path],
    queryFn: async ({ signal }) => {
      const params = { path: { extraction_id: extractionId }, query: { path } };
      return (await dataOf(api.GET('/api/extractions/{extraction_id}/answers', { params, signal })))
        .items as CandidateAnswer[];
    },
    staleTime: Infinity,
  });

/** Tables that have rows, for the filter. */
export const tablesQuery = queryOptions({
  queryKey: ['schemas', 'names'],
  queryFn: async ({ signal }) =>
    (await dataOf(api.GET('/api/schemas', { params: { query: { limit: 200 } }, signal }))).items,
  staleTime: 60_000,
});

export function itemKey(item: InboxItem): string {
  return `${item.kind} ${item.extraction_id ?? item.run_id ?? item.document_id} ${item.run_id ?? item.path ?? ''}`;
}
