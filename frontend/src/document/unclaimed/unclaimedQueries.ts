/** What is asked for where something is taken as a field. */

import { infiniteQueryOptions } from '@tanstack/react-query';
import { answer, api } from '../../api/client';
import type { ToldUnclaimed } from '../../api/types';

/** Its key has the version, so that what is shown belongs to the fields that are shown. */
export const unclaimedQuery = (extractionId: string, version: number) =>
  infiniteQueryOptions({
    queryKey: ['unclaimed', extractionId, version],
    initialPageParam: 1,
    queryFn: async ({ pageParam, signal }) => {
      const params = { path: { extraction_id: extractionId }, query: { page: pageParam } };
      return (await answer(api.GET('/api/extractions/{extraction_id}/unclaimed', { params, signal }))) as ToldUnclaimed;
    },
    getNextPageParam: (last) => last.next,
    staleTime: Infinity,
    gcTime: 60_000,
  });
