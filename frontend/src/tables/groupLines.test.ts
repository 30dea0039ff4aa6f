import { expect, test } from 'vitest';
import type { TableGroup } from '../api/types';
import { groupLines } from './groupLines';

const group = (value: string | null, rows: number): TableGroup => ({
  value,
  kind: value === null ? null : 'text',
  rows,
  to_review: 0,
  totals: [],
});
const GROUPS = [group('A', 2), group('B', 1), group(null, 2)];

test('the rows of open groups follow their header, and those that no group lists come last', () => {
  const lines = groupLines(GROUPS, 7, new Set(['text B']));
  expect(lines.count).toBe(10);
  const shown = Array.from({ length: lines.count }, (_, line) => {
    const header = lines.groupAt(line);
    return header === undefined ? lines.rowOf(line) : (header.group?.value ?? `${header.key} ${header.rows}`);
  });
  expect(shown).toEqual(['A', 0, 1, 'B', 'null null 2', 3, 4, ' 2', 5, 6]);
  expect(Array.from({ length: 7 }, (_, row) => lines.lineOf(row))).toEqual([1, 2, undefined, 5, 6, 8, 9]);
  expect([3, 4].map((line) => lines.rowOf(line))).toEqual([2, 3]);
});

test('without rows there is no line', () => {
  const lines = groupLines([], 0, new Set());
  expect([lines.count, lines.groupAt(0), lines.lineOf(0)]).toEqual([0, undefined, undefined]);
});
