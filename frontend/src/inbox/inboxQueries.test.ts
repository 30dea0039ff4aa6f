import { QueryClient } from '@tanstack/react-query';
import { expect, test } from 'vitest';
import {
  countAnswer,
  type InboxCounts,
  type InboxItem,
  inboxCountsQuery,
  inboxQuery,
  itemsByKey,
} from './inboxQueries';

test('an answer counts at once, in the list and beside the area, and can be taken back', () => {
  const queries = new QueryClient();
  const counts = {
    value: { count: 2, is_more: false },
    approval: { count: 1000, is_more: true },
  } as unknown as InboxCounts;
  const list = inboxQuery({}).queryKey;
  queries.setQueryData(inboxCountsQuery.queryKey, counts);
  queries.setQueryData(list, { pages: [{ items: [], next: null, counts }], pageParams: [null] });
  const shown = () => [
    queries.getQueryData(inboxCountsQuery.queryKey)?.value?.count,
    queries.getQueryData(list)?.pages[0]?.counts.value?.count,
  ];
  countAnswer(queries, 'value', -1);
  expect(shown()).toEqual([1, 1]);
  countAnswer(queries, 'value', 1);
  expect(shown()).toEqual([2, 2]);
  // More than are counted: one less is as many.
  countAnswer(queries, 'approval', -1);
  expect(queries.getQueryData(inboxCountsQuery.queryKey)).toEqual(counts);
});

const suggestion = (document_id: string, schema_id: string | null) =>
  ({ kind: 'suggestion', document_id, schema_id, run_id: null }) as InboxItem;

test('documents with the same suggested schema are one item, of the document that was first', () => {
  const items = [...itemsByKey([suggestion('c', 's'), suggestion('b', null), suggestion('a', 's')]).values()];
  expect(items.map((one) => [one.document_id, one.alike])).toEqual([
    ['a', ['c', 'a']],
    ['b', ['b']],
  ]);
});
