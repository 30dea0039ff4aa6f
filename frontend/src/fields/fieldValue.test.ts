import { expect, test } from 'vitest';
import { commonDecimals, displayValue } from './fieldValue';

test.each([
  [
    [2.6, 3.15, null],
    ['2.60', '3.15', ''],
  ],
  [
    [877.7, 9],
    ['877.70', '9.00'],
  ],
  [
    [7, 2026],
    ['7', '2026'],
  ],
])('the numbers %j of a column have the same decimal places', (values, texts) => {
  const decimals = commonDecimals(values);
  expect(values.map((one) => displayValue(one, { type: 'number', decimals }))).toEqual(texts);
});
