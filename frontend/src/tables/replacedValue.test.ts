import { expect, test } from 'vitest';
import type { StackColumn } from '../api/types';
import { changeState, isVisible, misfit } from './replacedValue';

const columns = Object.entries({
  vendor: 'text',
  total: 'number',
  day: 'date',
  paid: 'boolean',
  currency: 'currency',
  'items[].price': 'number',
} as const).map(([name, type]): Pick<StackColumn, 'name' | 'type'> => ({ name, type }));

test.each([
  ['vendor', 'Acme', null],
  ['vendor', 12, 'other_type'],
  ['total', 12, null],
  ['total', '12', 'other_type'],
  ['day', '2024-03-12', null],
  ['day', '12 March', 'other_type'],
  ['paid', false, null],
  ['currency', 'EUR', null],
  ['currency', 'Euro', 'other_type'],
  ['iban', 'DE1', 'no_column'],
  ['items[2].price', 5, null],
  ['items[2]', { price: 5 }, null],
  ['items[2]', { price: '5' }, 'other_type'],
  ['items', [{ price: 5, name: 'Pen' }], 'no_column'],
])('%s: restoring %j', (path, value, expected) => {
  expect(misfit(columns, path, value)).toBe(expected);
});

test.each([
  [12, '12', false],
  [1234.5, '1234.5', false],
  [1, true, true],
  ['a', 'b', true],
  ['null', null, true],
  [12, 12.5, true],
])('%j to %j', (old, now, expected) => {
  expect(isVisible({ old, new: now })).toBe(expected);
});

test.each([
  [true, false, false, 'current'],
  [true, true, false, 'confirmed'],
  [false, true, true, 'restored'],
  [false, true, false, 'changed'],
] as const)('current %s, locked %s, restored %s: %s', (is_current, is_locked, is_restored, expected) => {
  expect(changeState({ is_current, is_locked, is_restored })).toBe(expected);
});
