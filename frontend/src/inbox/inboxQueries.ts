/** What waits for a person. */

import { type InfiniteData, infiniteQueryOptions, type QueryClient, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { components } from '../api/description';
import type { InboxView } from './inboxView';
import { DAY_MS } from '../shared/format';

export type InboxItem = components['schemas']['InboxItem'] & {
  /** The documents with the same suggestion, newest first. */
  alike?: readonly string[];
};
type Page = components['schemas']['InboxPage'];
export type InboxCounts = Page['counts'];

export const inboxQuery = ({ run: _, ...view }: InboxView, limit = 50) =>
  infiniteQueryOptions({
    queryKey: ['inbox', view, limit],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) => {
      const until = view.days === undefined ? undefined : new Date(Date.now() - view.days * DAY_MS).toISOString();
      const query = {
        limit,
        ...(pageParam !== null && { before: pageParam }),
        ...(view.kind !== undefined && { kind: view.kind }),
        ...(view.schema !== undefined && { schema_id: view.schema }),
        ...(view.person !== undefined && { created_by: view.person }),
        ...(view.assignee !== undefined && { assignee_id: view.assignee }),
        ...(view.field !== undefined && { field: view.field }),
        ...(view.kind === 'value' && view.order !== undefined && { order: view.order }),
        ...(until !== undefined && { until }),
      };
      return api.get('/api/inbox', { query, signal });
    },
    getNextPageParam: (last) => last.next,
    refetchInterval: 4000,
  });

/** The number of things that wait for a person, by kind. */
export const inboxCountsQuery = queryOptions({
  queryKey: ['inbox', 'counts'],
  queryFn: async ({ signal }) => {
    const page = await api.get('/api/inbox', { query: { limit: 1 }, signal });
    return page.counts;
  },
  refetchInterval: 10_000,
});

/** Count answers (below 0), or take them back, before the service has saved it and the counts are loaded again. */
export function countAnswer(queries: QueryClient, kind: InboxItem['kind'], by: number): void {
  // A request sent before would bring the old counts back.
  void queries.cancelQueries({ queryKey: ['inbox'] });
  const counted = (counts: InboxCounts): InboxCounts => {
    const { count, is_more } = counts[kind]!;
    return is_more ? counts : { ...counts, [kind]: { count: Math.max(count + by, 0), is_more } };
  };
  queries.setQueryData(inboxCountsQuery.queryKey, (counts) => counts && counted(counts));
  queries.setQueriesData<InfiniteData<Page>>(
    { predicate: ({ queryKey: [subject, view] }) => subject === 'inbox' && view !== 'counts' },
    (data) => data && { ...data, pages: data.pages.map((page) => ({ ...page, counts: counted(page.counts) })) },
  );
}

export function total(counts: InboxCounts | undefined): { count: number; is_more: boolean } | undefined {
  if (counts === undefined) return undefined;
  const all = Object.values(counts);
  return { count: all.reduce((sum, one) => sum + one.count, 0), is_more: all.some((one) => one.is_more) };
}

/** Documents with the same key are one item: a table that is suggested for several. */
export function itemKey(item: InboxItem): string {
  if (item.kind === 'value') return valueKey(item.extraction_id ?? '', item.path ?? '');
  if (item.run_id !== null) return runKey(item.run_id);
  return `${item.kind} ${(item.kind === 'suggestion' ? item.schema_id : null) ?? item.document_id}`;
}

/** Return each item once, by its key. Of suggestions, the oldest document has made the schema. */
export function itemsByKey(items: readonly InboxItem[]): Map<string, InboxItem> {
  const byKey = new Map<string, InboxItem>();
  for (const one of items) {
    const key = itemKey(one);
    const isGroup = one.kind === 'suggestion' && one.document_id !== null;
    byKey.set(key, isGroup ? { ...one, alike: [...(byKey.get(key)?.alike ?? []), one.document_id!] } : one);
  }
  return byKey;
}

export function runKey(runId: string): string {
  return `run ${runId}`;
}

export function valueKey(extractionId: string, path: string): string {
  return `value ${extractionId} ${path}`;
}

/** Whether an item, or the list or object that it is in, was answered. */
export function isAnswered(item: InboxItem, answered: ReadonlySet<string>): boolean {
  if (answered.has(itemKey(item))) return true;
  if (item.kind !== 'value' || item.path === null) return false;
  const { extraction_id: id, path } = item;
  return [...path.matchAll(/[.[]/g)].some(({ index }) => answered.has(valueKey(id ?? '', path.slice(0, index))));
}
