/** Tab-separated text from and to spreadsheets. */

import { expect, test } from 'vitest';
import { formatTsv, parseTsv } from './tsv';

test.each([
  [
    'a\tb\r\nc\td\r\n',
    [
      ['a', 'b'],
      ['c', 'd'],
    ],
  ],
  ['a', [['a']]],
  ['\t', [['', '']]],
  ['a\n\nb', [['a'], [''], ['b']]],
  ['"two\nlines"\t"a ""quote"""', [['two\nlines', 'a "quote"']]],
  ['"not closed\tb', [['"not closed', 'b']]],
])('%j is parsed', (text, rows) => expect(parseTsv(text)).toEqual(rows));

test('what is copied is parsed as the same cells', () => {
  const rows = [
    ['a\tb', 'say "hi"', ''],
    ['two\nlines', '-12,5', '1'],
  ];
  expect(parseTsv(formatTsv(rows))).toEqual(rows);
});

test('a text that would be a formula is not one in a spreadsheet', () => {
  expect(formatTsv([['=1+1', '+A1', '@x', '-cmd', '-5.2']])).toBe("'=1+1\t'+A1\t'@x\t'-cmd\t-5.2");
});
