import { expect, test } from 'vitest';
import { columnConflict } from './columnConflict';

const conflict = (...names: string[]) => columnConflict(names.map((name) => ({ name })));

test.each([
  [
    ['Total', 'date', 'total'],
    [0, 2],
  ],
  [
    ['total', 'total'],
    [0, 1],
  ],
  [
    ['invoice no.', 'Invoice_No'],
    [0, 1],
  ],
  [
    ['items[].unit price', 'items[].unitPrice'],
    [0, 1],
  ],
  [
    ['Größe', 'gro\u0308ße'],
    [0, 1],
  ],
  [['total', 'total 2', '', ''], null],
  [['items_total', 'items[].total'], null],
  [['€', '$'], null],
])('names %j', (names, expected) => {
  expect(conflict(...names)).toEqual(expected);
});
