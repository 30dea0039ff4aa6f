import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import { t } from '../shared/i18n';
import { ColumnTotals, totalsByColumn } from './ColumnTotals';

afterEach(cleanup);

const { foot, mixed } = totalsByColumn([
  { column: 'total', currency: 'EUR', sum: '5', count: 1 },
  { column: 'total', currency: null, sum: '7.5', count: 2 },
  { column: 'tax', currency: null, sum: '3', count: 2 },
]);

test('the sum of a column is shown; of several currencies, their number, and on press each of them', async () => {
  expect([...mixed]).toEqual(['total']);
  const { unmount } = render(<ColumnTotals texts={foot.get('tax')!} />);
  screen.getByText('3');
  unmount();
  render(<ColumnTotals texts={foot.get('total')!} />);
  fireEvent.click(screen.getByRole('button', { name: t('tables.sums', { count: 2 }) }));
  const shown = await screen.findAllByRole('listitem');
  expect(shown.map(({ textContent }) => textContent)).toEqual([
    t('tables.sumWithoutCurrency', { sum: '7.5' }),
    '€5.00',
  ]);
});
