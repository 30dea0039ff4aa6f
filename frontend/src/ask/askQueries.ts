/** Conversations over all documents, as the service has them. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import type { Thread } from '../api/types';

export const threadsQuery = queryOptions({
  queryKey: ['threads', 'library'],
  queryFn: ({ signal }) => answer(api.GET('/api/threads', { params: { query: { agent: 'library', limit: 100 } }, signal })),
});

/** What was said in one, the newest page first. */
export const threadQuery = (threadId: string) =>
  infiniteQueryOptions({
    queryKey: ['thread', threadId],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) => {
      const query = { limit: 20, ...(pageParam !== null && { before: pageParam }) };
      return (await answer(api.GET('/api/threads/{thread_id}', { params: { path: { thread_id: threadId }, query }, signal }))) as Thread;
    },
    getNextPageParam: (last) => last.next,
  });
