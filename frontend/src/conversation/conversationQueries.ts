/** Queries for conversations and their messages. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Thread } from '../api/types';

/** Conversations with an agent, about one document or about all. */
export const threadsQuery = (agent: 'library' | 'document', documentId?: string) =>
  queryOptions({
    queryKey: ['threads', agent, documentId ?? null],
    queryFn: ({ signal }) => {
      const query = { agent, limit: 100, ...(documentId !== undefined && { document_id: documentId }) };
      return api.get('/api/threads', { query, signal });
    },
  });

/** Messages of one conversation, the newest page first. */
export const threadQuery = (threadId: string) =>
  infiniteQueryOptions({
    queryKey: ['thread', threadId],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) => {
      const query = { limit: 20, ...(pageParam !== null && { before: pageParam }) };
      return (await api.get('/api/threads/{thread_id}', { path: { thread_id: threadId }, query, signal })) as Thread;
    },
    getNextPageParam: (last) => last.next,
  });
