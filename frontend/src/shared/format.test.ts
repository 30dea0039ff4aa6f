import { expect, test } from 'vitest';
import { readWritten, shown, written } from '../document/fields/fieldValue';
import { visibleText } from './format';

test.each([
  ['invoice\u202efdp.exe', 'invoice\\u202efdp.exe'],
  ['a\u200bb', 'a\\u200bb'],
  ['<b>x</b>', '<b>x</b>'],
  ['two\nlines', 'two lines'],
])('what nobody sees in %j is spelt out', (text, seen) => expect(visibleText(text)).toBe(seen));

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
])('%j written over %j is %j', (text, before, value) => expect(readWritten(text, before)).toBe(value));

test('values as they are shown', () => {
  expect([null, true, 1.5, [], {}, 'x'].map(shown)).toEqual(['', 'yes', '1.5', '(empty list)', '(nothing in it)', 'x']);
  expect([null, true, 1.5, 'x'].map(written)).toEqual(['', 'true', '1.5', 'x']);
});
