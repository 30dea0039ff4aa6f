import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import type { Run } from '../api/types';
import { t } from '../shared/i18n';
import { Summary } from './WaitingRows';

afterEach(cleanup);

test('the summary names the rows that were not approved, and its numbers add up', () => {
  const runs = (count: number) => Array.from({ length: count }, () => ({}) as Run);
  render(<Summary done={runs(7)} failed={['a.pdf: changed', 'b.pdf: gone']} left={runs(3)} />);
  for (const text of [
    t('stacks.approvedOf', { done: 7, count: 12 }),
    t('stacks.rowsNotSent', { count: 3 }),
    t('stacks.rowsFailed', { count: 2 }),
  ])
    screen.getByText(text);
  expect(screen.getAllByRole('listitem').map(({ textContent }) => textContent)).toEqual([
    'a.pdf: changed',
    'b.pdf: gone',
  ]);
});
