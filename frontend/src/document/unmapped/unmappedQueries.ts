/** Query for unmapped text. */

import { infiniteQueryOptions } from '@tanstack/react-query';
import { api } from '../../api/client';
import type { UnmappedPage } from '../../api/types';

/** The key has the version, so that the result matches the fields that are shown. */
export const unmappedQuery = (extractionId: string, version: number) =>
  infiniteQueryOptions({
    queryKey: ['unmapped', extractionId, version],
    initialPageParam: 1,
    queryFn: async ({ pageParam, signal }) => {
      const params = { path: { extraction_id: extractionId }, query: { page: pageParam } };
      return (await api.get('/api/extractions/{extraction_id}/unmapped', { ...params, signal })) as UnmappedPage;
    },
    getNextPageParam: (last) => last.next,
    staleTime: Infinity,
    gcTime: 60_000,
  });
