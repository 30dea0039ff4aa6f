/** The keys of all queries: what a query is about, then what it depends on. A change refreshes what starts with a key. */

import type { QueryClient } from '@tanstack/react-query';

export type Subject =
  | 'answers'
  | 'config'
  | 'crop'
  | 'discussion'
  | 'document'
  | 'documents'
  | 'extraction'
  | 'extractions'
  | 'history'
  | 'inbox'
  | 'invitation'
  | 'known fields'
  | 'locations'
  | 'me'
  | 'missing_rows'
  | 'models'
  | 'organisation'
  | 'overview'
  | 'page'
  | 'page image'
  | 'problems'
  | 'prompts'
  | 'proposal ended'
  | 'proposed fields'
  | 'records'
  | 'rule_fixes'
  | 'run cost'
  | 'runs'
  | 'schema effect'
  | 'schema of'
  | 'schemas'
  | 'search'
  | 'sources'
  | 'stacks'
  | 'suggestions'
  | 'tags'
  | 'thread'
  | 'thread state'
  | 'threads'
  | 'tools of an agent'
  | 'unmapped'
  | 'usage'
  | 'webhooks';
export type QueryKey = readonly [Subject, ...unknown[]];

declare module '@tanstack/react-query' {
  interface Register {
    queryKey: QueryKey;
  }
}

/** Load what is shown of these again, and the rest when it is shown. */
export async function refresh(queries: QueryClient, ...changed: readonly (Subject | QueryKey)[]): Promise<void> {
  const keys = changed.map((one): QueryKey => (typeof one === 'string' ? [one] : one));
  await Promise.all(keys.map((queryKey) => queries.invalidateQueries({ queryKey })));
}
