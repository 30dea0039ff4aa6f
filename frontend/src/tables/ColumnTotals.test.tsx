import { cleanup, render } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import { t } from '../shared/i18n';
import { ColumnTotals, totalsByColumn } from './ColumnTotals';

afterEach(cleanup);

const { byColumn, mixed, currencies } = totalsByColumn([
  { column: 'total', currency: 'EUR', sum: '5', count: 1 },
  { column: 'total', currency: null, sum: '7.5', count: 2 },
  { column: 'tax', currency: null, sum: '3', count: 2 },
]);

test('the sum in each currency is shown in full, the most frequent first, and how many rows have none', () => {
  expect([[...mixed], currencies]).toEqual([['total'], [null, 'EUR']]);
  const { container } = render(<ColumnTotals totals={byColumn.get('total')!} rows={4} decimals={2} />);
  const shown = [...container.children].map(({ textContent }) => textContent?.trim());
  expect(shown).toEqual([`7.50 ${t('tables.noCurrency')}`, '5.00 EUR', t('tables.without', { count: 1 })]);
});

test('under a table, the sums in a currency are in one line', () => {
  const { container } = render(<ColumnTotals totals={byColumn.get('tax')!} rows={2} decimals={0} lines={currencies} />);
  expect([...container.children].map(({ textContent }) => textContent?.trim())).toEqual(['3', '']);
});
