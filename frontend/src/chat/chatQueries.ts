/** Queries of the chat about a document. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { Thread } from '../api/types';
import { formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { Mention } from './mentions';

const FEW = 5;

/** Suggestions for a mention: a few of each type. */
export const suggestionsQuery = (documentId: string, word: string) =>
  queryOptions({
    queryKey: ['suggestions', documentId, word],
    queryFn: async ({ signal }): Promise<Mention[]> => {
      const query = { limit: FEW, ...(word !== '' && { name_contains: word }) };
      const [schemas, prompts, tags, documents, extractions] = await Promise.all([
        api.get('/api/schemas', { query, signal }),
        api.get('/api/prompts', { query, signal }),
        api.get('/api/tags', { query, signal }),
        api.get('/api/documents', {
          query: { limit: FEW, status: 'ready' as const, ...(word !== '' && { filename: word }) },
          signal,
        }),
        api.get('/api/extractions', { query: { limit: FEW, document_id: documentId }, signal }),
      ]);
      const named = extractions.items.map((one) => ({
        id: one.id,
        name: t('chat.extractionAt', { time: formatTime(one.created_at) }),
      }));
      const of = (
        type: Mention['type'],
        items: readonly { id: string; name: string; number?: number; proposed?: boolean }[],
      ) =>
        items.map(({ id, name, number, proposed }) => {
          const note = [number !== undefined && `v${number}`, proposed === true && t('chat.notAccepted')]
            .filter(Boolean)
            .join(', ');
          return { type, id, name, ...(note !== '' && { note }) };
        });
      return [
        ...of('schema', schemas.items),
        ...of('prompt', prompts.items),
        ...of('tag', tags.items),
        ...of(
          'extraction',
          named.filter((one) => one.name.toLowerCase().includes(word.toLowerCase())),
        ),
        ...of(
          'document',
          documents.items
            .filter((one) => one.id !== documentId)
            .map((one) => ({ id: one.id, name: visibleText(one.filename) })),
        ),
      ];
    },
    staleTime: 10_000,
  });

/** The agent's tools that run right away, and those that need approval. The key starts like that of `meQuery`: a change of
 * the organisation's settings invalidates both. */
export const chatToolsQuery = queryOptions({
  queryKey: ['me', 'tools of the document agent'],
  queryFn: ({ signal }) => api.get('/api/agent/tools', { query: { agent: 'document' }, signal }),
});

export interface WorkingState {
  schema?: string;
  prompt?: string;
}

/** The names of the schema and the prompt that a conversation uses. */
export const workingStateQuery = (threadId: string) =>
  queryOptions({
    queryKey: ['thread state', threadId],
    queryFn: async ({ signal }): Promise<WorkingState> => {
      const params = { path: { thread_id: threadId }, query: { limit: 1 } };
      const { working_state: ids } = (await api.get('/api/threads/{thread_id}', { ...params, signal })) as Thread;
      const [schema, prompt] = await Promise.all([
        typeof ids.schema_revid === 'string'
          ? api.get('/api/schema_versions/{schema_revid}', { path: { schema_revid: ids.schema_revid }, signal })
          : undefined,
        typeof ids.prompt_revid === 'string'
          ? api.get('/api/prompt_versions/{prompt_revid}', { path: { prompt_revid: ids.prompt_revid }, signal })
          : undefined,
      ]);
      const label = (version: { name: string; number: number; deleted: boolean }) =>
        t(version.deleted ? 'chat.deletedVersion' : 'chat.version', version);
      return { ...(schema && { schema: label(schema) }), ...(prompt && { prompt: label(prompt) }) };
    },
  });
