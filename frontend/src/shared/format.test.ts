import { expect, test } from 'vitest';
import { keyLabel, pathLabel } from '../fields/labels';
import { displayValue, editedText, parseEdited } from '../fields/fieldValue';
import { formatCost, formatDuration, formatEstimate, sumCosts, visibleText } from './format';

test.each([
  ['invoice\u202efdp.exe', 'invoice\\u202efdp.exe'],
  ['a\u200bb', 'a\\u200bb'],
  ['<b>x</b>', '<b>x</b>'],
  ['two\nlines', 'two lines'],
])('invisible characters in %j are escaped', (text, seen) => expect(visibleText(text)).toBe(seen));

test.each([
  ['12.50', 10, 12.5],
  ['12,50', 10, '12,50'],
  ['007', 10, '007'],
  ['12345678901234567890', 1, '12345678901234567890'],
  ['12', 'INV-1', '12'],
  ['true', false, true],
  ['perhaps', false, 'perhaps'],
  ['', 10, null],
  ['', 'x', ''],
  ['new', null, 'new'],
])('%j edited over %j is %j', (text, before, value) => expect(parseEdited(text, before)).toBe(value));

const of = (type: string, decimals = 0) => ({ type, decimals });

test.each([
  [null, undefined, null, ''],
  [true, undefined, null, 'Yes'],
  [[], undefined, null, '(empty)'],
  [{}, undefined, null, '(empty)'],
  [['a', 'b'], undefined, null, 'a, b'],
  [
    [
      { item: 'Desk', net: 1.5, note: null },
      { item: 'Chair', net: 2 },
    ],
    undefined,
    null,
    'Desk · 1.5; Chair · 2',
  ],
  [{ unit_price: 2, is_net: true, note: null }, undefined, null, 'Unit price: 2, Is net: Yes'],
  ['x', undefined, null, 'x'],
  // As many decimal places as printed, or as the schema's multipleOf has.
  [262.9, undefined, 'Total 262.90', '262.90'],
  [262.9, undefined, 'Gesamt 262,90 EUR', '262.90'],
  [262.9, undefined, null, '262.9'],
  [100, undefined, '100.00', '100.00'],
  [5, of('number', 2), null, '5.00'],
  [1312.5, undefined, '1.312,50', '1,312.50'],
  [-4.5, undefined, '-4.50', '-4.50'],
  // Whole numbers may be years or identifiers.
  [2023, undefined, '2023', '2023'],
  [20230008, undefined, null, '20230008'],
  [1312, undefined, '1,312 items', '1,312'],
  // Never rounded.
  [1e-20, undefined, null, '1e-20'],
  [0.1234567, of('number', 2), null, '0.1234567'],
  // Dates by their type in the schema; without a schema by their form.
  ['2023-03-20', of('date'), null, '20 Mar 2023'],
  ['2023-03-20', undefined, null, '20 Mar 2023'],
  ['2023-03-20', of('string'), null, '2023-03-20'],
  ['2023-13-40', undefined, null, '2023-13-40'],
])('%j of %j, printed as %j, is shown as %s', (value, field, quote, text) =>
  expect(displayValue(value, field, quote)).toBe(text),
);

test('an editor has the stored value', () => {
  expect([null, true, 1.5, 'x', '2023-03-20'].map(editedText)).toEqual(['', 'true', '1.5', 'x', '2023-03-20']);
});

test.each([
  ['invoice_number', 'Invoice number'],
  ['invoiceNumber', 'Invoice number'],
  ['vat_id', 'VAT ID'],
  ['vatId', 'VAT ID'],
  ['IBAN', 'IBAN'],
  ['due-date', 'Due date'],
  ['Rechnungs-Nr.', 'Rechnungs-Nr.'],
  ['<b>key</b>', '<b>key</b>'],
])('the label of %s is %s', (key, label) => expect(keyLabel(key)).toBe(label));

test('a path has the labels of its steps, by the titles of the schema', () => {
  const schema = [{ path: 'items[*].price', type: 'number', title: 'Unit price', description: '', decimals: 0 }];
  expect(pathLabel('items[1].price', schema)).toBe('Items › 2 › Unit price');
  expect(pathLabel('items[1].price')).toBe('Items › 2 › Price');
});

test.each([
  [0, 'less than $0.01'],
  [0.004, 'less than $0.01'],
  [0.014, 'about $0.01'],
  [12.345, 'about $12.35'],
])('an estimated cost of %d', (amount, expected) => expect(formatEstimate(amount)).toBe(expected));

test('costs that are added here show the same cents as the sum of the service', () => {
  const costs = [1.005, 2.01, 1.34];
  expect(formatCost(sumCosts(costs)!)).toBe(formatCost(4.355));
  expect(sumCosts([0.1, 0.2])).toBe(0.3);
  expect(sumCosts([0.1, null])).toBeNull();
  expect(sumCosts([])).toBe(0);
});

test.each([
  [120, '120ms'],
  [7500, '7.5s'],
  [59_700, '1m'],
  [895_000, '14m 55s'],
  [3_600_000, '1h'],
  [7_384_000, '2h 3m'],
])('a duration of %i ms is %s', (milliseconds, text) => expect(formatDuration(milliseconds)).toBe(text));
