import { expect, test } from 'vitest';
import type { FieldError } from '../api/types';
import { violationText } from './violationText';

const violation = (code: string, params: Record<string, unknown> = {}, path = ''): FieldError => ({
  code,
  path,
  params,
  message: 'As the service says it.',
  about: [],
});

test.each([
  [violation('required', {}, 'vendor.tax_id'), 'Vendor › Tax ID is required.'],
  [violation('type', { expected: ['number', 'null'] }, 'total'), 'Total must be a number or empty.'],
  [violation('enum', { expected: ['EUR', 'USD'] }, 'currency'), 'Currency must be one of: EUR, USD.'],
  [violation('maximum', { expected: 1000.5 }, 'items[1].price'), 'Items › 2 › Price can be at most 1,000.5.'],
  [
    violation('pattern', { expected: '^PO-[0-9]{4}$' }, 'number'),
    'Number is not written in the expected form (“PO-”, 4 digits).',
  ],
  [violation('minProperties', { expected: 1 }, 'total'), 'As the service says it.'],
  [violation('minProperties'), 'As the service says it.'],
  [
    violation('sum', {
      parts: ['total', 'change'],
      total: 'cash',
      actual: '1052.00',
      expected: '1055.10',
      difference: '3.10',
    }),
    'Total + Change is 1,052.00, but Cash is 1,055.10 (off by 3.10).',
  ],
  [
    violation('sum', { parts: ['items[*].total'], total: null, actual: '3', expected: '5', difference: '2' }),
    'The sum of Items › Total is 3, but must be 5 (off by 2).',
  ],
  [violation('product', { not_a_number: 'quantity', value: 'two' }), 'Quantity is “two”, which is not a number.'],
  [
    violation('date_order', { paths: ['issued', 'due'], values: ['2024-03-02', '2024-03-01'] }),
    'Issued (2 Mar 2024) must not be after Due (1 Mar 2024).',
  ],
  [
    violation('required_if', { missing: 'vat_id', condition: 'country', value: 'DE' }),
    'VAT ID is required, because Country is DE.',
  ],
  [violation('more', { count: 1 }), 'And 1 more problem.'],
])('%o', (error, text) => {
  expect(violationText(error)).toBe(text);
});
