import { expect, test } from 'vitest';
import type { FieldRow, FieldStatus } from '../document/fields/fieldTree';
import { fieldsToReview, perMinute } from './fieldsToReview';

const leaf = (path: string, status: FieldStatus): FieldRow => ({
  ...{ kind: 'leaf', path, label: path, depth: 0, value: 1, evidence: undefined, confidence: undefined },
  ...{ lock: undefined, errors: [], status },
});
const paths = (rows: FieldRow[], ...done: string[]) => fieldsToReview(rows, new Set(done)).map((row) => row.path);

test('only unsettled values are reviewed, failed rules first', () => {
  const rows = [leaf('a', 'found'), leaf('b', 'unsure'), leaf('c', 'not_found'), leaf('d', 'unsure'), leaf('e', 'broken')];
  rows.push(leaf('f', 'locked'), leaf('g', 'blank'), leaf('h', 'stated'), leaf('i', 'preview'), leaf('j', 'proposal'));
  expect(paths(rows)).toEqual(['e', 'j', 'c', 'b', 'd']);
  expect(paths([{ kind: 'group', path: 'g', label: 'g', depth: 0, size: 1, isList: false }])).toEqual([]);
});

test('decided fields are not asked again', () => {
  expect(paths([leaf('a', 'broken'), leaf('b', 'unsure')], 'a')).toEqual(['b']);
});

test('decisions per minute', () => {
  expect(perMinute([])).toBeNull();
  expect(perMinute([5])).toBeNull();
  expect(perMinute([0, 10_000, 20_000])).toBe(6);
});
