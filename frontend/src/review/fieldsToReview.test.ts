import { expect, test } from 'vitest';
import type { Reason } from '../api/types';
import type { FieldStatus } from '../document/fields/fieldStatus';
import type { FieldRow } from '../document/fields/fieldTree';
import { fieldsToReview, perMinute, type Decided } from './fieldsToReview';

const leaf = (path: string, status: FieldStatus, reason: Reason | null = null): FieldRow => ({
  ...{ kind: 'leaf', path, label: path, depth: 0, value: 1, evidence: undefined, confidence: undefined },
  ...{ lock: undefined, errors: [], status, reason },
});
const paths = (rows: FieldRow[], decided: [string, 'pending' | 'saved' | 'skipped'][] = []) =>
  fieldsToReview(rows, new Map(decided) as Decided).map((row) => row.path);

test('what a person has to look at is reviewed, what is missing first; also a list that breaks a rule itself', () => {
  const list: FieldRow = {
    kind: 'group',
    path: 'items',
    label: 'Items',
    depth: 0,
    size: 1,
    isList: true,
    errors: [],
    status: 'needs_review',
    reason: 'breaks_rule',
  };
  const rows = [
    leaf('a', 'found'),
    leaf('b', 'unclear', 'ambiguous_date'),
    leaf('c', 'needs_review', 'not_found'),
    list,
    leaf('d', 'accepted', 'breaks_rule'),
  ];
  expect(paths([...rows, leaf('e', 'needs_review', 'missing'), { ...list, path: 'ok', status: undefined }])).toEqual([
    'e',
    'items',
    'c',
    'b',
  ]);
});

test('a decided field is asked about again, last, once the service has answered that it still needs a person', () => {
  const rows = ['a', 'b', 'c'].map((path) => leaf(path, 'needs_review', 'breaks_schema'));
  expect(
    paths(rows, [
      ['a', 'pending'],
      ['b', 'skipped'],
    ]),
  ).toEqual(['c']);
  expect(paths(rows, [['a', 'saved']])).toEqual(['b', 'c', 'a']);
});

test('a decision about a list hides what is in it', () => {
  const rows = ['items[0].price', 'items[1].price', 'itemsize'].map((path) => leaf(path, 'needs_review', 'proposal'));
  expect(paths(rows, [['items', 'pending']])).toEqual(['itemsize']);
});

test('decisions per minute', () => {
  expect(perMinute([])).toBeNull();
  expect(perMinute([5])).toBeNull();
  expect(perMinute([0, 10_000, 20_000])).toBe(6);
});
