/** Text of cells, as typed and pasted, in both languages. */

import { afterEach, expect, test } from 'vitest';
import { followLanguage, languageChoice } from '../shared/i18n';
import type { RecordCell, RecordRow } from '../api/types';
import { columnDecimals, copiedText, displayCell, parseCell, ownCurrency } from './cellValue';

afterEach(() => languageChoice.set('en'));

const NUMBERS = {
  en: [
    ['1,234.50', 1234.5],
    ['1234.5', 1234.5],
    ['-7', -7],
    ['1.234', 1.234],
    ['1,23', null],
    ['abc', null],
    ['1 234.5', 1234.5],
    ['12345678901234567', null],
  ],
  de: [
    ['1.234,50', 1234.5],
    ['1234,5', 1234.5],
    ['−7', -7],
    ['1.234', 1234],
    ['1234.5', 1234.5],
    ['1,234,567', null],
  ],
} as const;
const DAYS = {
  en: [
    ['2024-3-2', '2024-03-02'],
    ['02/03/2024', '2024-03-02'],
    ['2 Mar 2024', '2024-03-02'],
    ['31/02/2024', null],
    ['2 Foo 2024', null],
  ],
  de: [
    ['2.3.2024', '2024-03-02'],
    ['2. März 2024', '2024-03-02'],
    ['2.13.2024', null],
  ],
} as const;

test.each(['en', 'de'] as const)('numbers and dates are read as written in the language %s', async (language) => {
  languageChoice.set(language);
  await followLanguage();
  const read = (text: string, type: 'number' | 'date') => {
    const parsed = parseCell(text, type);
    return 'problem' in parsed ? null : parsed.value;
  };
  expect(NUMBERS[language].map(([text]) => [text, read(text, 'number')])).toEqual(NUMBERS[language]);
  expect(DAYS[language].map(([text]) => [text, read(text, 'date')])).toEqual(DAYS[language]);
  // A copied value is read as the same value.
  for (const value of [1234.5, -0.25, 7]) expect(read(copiedText(value), 'number')).toBe(value);
  for (const value of [true, false]) expect(parseCell(copiedText(value), 'boolean')).toEqual({ value });
});

test('empty text is no value', () => {
  for (const type of ['text', 'number', 'date', 'boolean'] as const)
    expect(parseCell(' ', type)).toEqual({ value: null });
});

test.each([
  [
    'amounts, some without decimals',
    [5, 1888.24, 12.5, 7.25],
    ['5', '1,888.24', '12.50', '7.25'],
    'EUR',
    ['5.00', '1,888.24', '12.50', '7.25'],
  ],
  ['prices with more decimals', [0.125, 3.5, 2], [null, '3.50', '2.00'], 'EUR', ['0.125', '3.50', '2.00']],
  ['quantities', [1, 2, 2.5], [null, null, null], 'EUR', ['1', '2', '2.5']],
  [
    'mostly whole amounts',
    [5, 12, 7, 1888.24],
    ['5', '12', '7', '1,888.24'],
    'EUR',
    ['5.00', '12.00', '7.00', '1,888.24'],
  ],
  ['measures', [5, 12, 7.25], [null, null, null], null, ['5', '12', '7.25']],
  ['whole amounts in a currency', [500, 1200], ['500', '1,200'], 'JPY', ['500', '1,200']],
  ['years', [2024, 1999.5], [null, null], null, ['2024', '1,999.5']],
] as const)('the values of a column have its decimals: %s', (_, values, quotes, currency, expected) => {
  const cells = values.map((value, index) => ({ value, quote: quotes[index], currency }) as unknown as RecordCell);
  const page = {
    columns: [{ path: 'total', type: 'number', title: null }],
    items: cells.map((cell) => ({ cells: { total: cell } }) as unknown as RecordRow),
  } as const;
  const decimals = columnDecimals({ columns: [...page.columns], items: page.items }).get('total')!;
  expect(cells.map((cell) => displayCell(cell, { type: 'number', decimals }))).toEqual(expected);
});

test('an amount has the currency of its own before it only if no column shows that', () => {
  const [total, code] = [{ value: 5, currency: 'EUR' }, { value: 'EUR' }] as RecordCell[];
  const columns = [{ path: 'total' }, { path: 'code' }];
  const shown = (cells: Record<string, RecordCell>, paths = columns) => ownCurrency({ cells }, total, paths);
  expect(shown({ total: total!, code: code! })).toBeNull();
  expect(shown({ total: total!, code: code! }, [{ path: 'total' }])).toBe('EUR'); // the column is hidden
  expect(shown({ total: total!, code: { ...code!, value: 'USD' } })).toBe('EUR');
});
