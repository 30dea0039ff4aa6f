import { expect, test } from 'vitest';
import type { CountedValue } from '../api/types';
import { schemaFields } from '../fields/schemaFields';
import { valueFormat } from './valueFormat';

const SCHEMA = schemaFields({
  properties: {
    due: { type: ['string', 'null'], format: 'date' },
    total: { type: 'number' },
    number: { type: 'string' },
    items: { items: { properties: { price: { type: 'number' } } } },
  },
});

const value = (path: string, was: string | null, now: string): CountedValue =>
  ({ path, pattern: path.replace(/\d+/g, ''), was, now }) as CountedValue;

test('values of the quality page are formatted by their type', () => {
  const all = [value('due', '2027-01-02', '2026-12-26'), value('total', '1117.31', '1139.6')];
  const shown = (one: CountedValue) => valueFormat(one, SCHEMA, all)(one.now!);
  expect(shown(all[0]!)).toBe('26 Dec 2026');
  expect(shown(all[1]!)).toBe('1,139.60');
  expect(shown(value('items[2].price', null, '4.5'))).toBe('4.5');
  expect(shown(value('number', null, '0042'))).toBe('0042');
  expect(shown(value('removed_column', null, '12'))).toBe('12');
});
