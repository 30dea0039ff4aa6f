/** The totals of a column: the sum in each currency, and how many rows have no number. */

import type { ColumnTotal } from '../api/types';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';

/** The totals by column: of the most frequent currency first, the same order in each column. */
export interface Totals {
  byColumn: ReadonlyMap<string, readonly ColumnTotal[]>;
  /** The columns whose numbers have several currencies. */
  mixed: ReadonlySet<string>;
  /** The most sums of a column. */
  lines: number;
}

export function totalsByColumn(totals: readonly ColumnTotal[]): Totals {
  const weights = new Map<string | null, number>();
  for (const { currency, count } of totals) weights.set(currency, (weights.get(currency) ?? 0) + count);
  const byColumn = new Map<string, ColumnTotal[]>();
  for (const one of totals.toSorted((a, b) => weights.get(b.currency)! - weights.get(a.currency)!))
    byColumn.set(one.column, [...(byColumn.get(one.column) ?? []), one]);
  const sizes = [...byColumn].map(([column, all]) => [column, all.length] as const);
  return {
    byColumn,
    mixed: new Set(sizes.filter(([, size]) => size > 1).map(([column]) => column)),
    lines: Math.max(0, ...sizes.map(([, size]) => size)),
  };
}

/** `rows`: the number of rows; undefined if the column's numbers are not those of the rows. */
export function ColumnTotals({ totals, rows }: { totals: readonly ColumnTotal[]; rows: number | undefined }) {
  const missing = rows === undefined ? 0 : rows - totals.reduce((sum, { count }) => sum + count, 0);
  return (
    <>
      {totals.map(({ currency, sum }) => (
        <span key={currency} className="block truncate">
          <Amount sum={sum} currency={currency} isMixed={totals.length > 1} />
        </span>
      ))}
      {missing > 0 && (
        <span className="block truncate font-normal text-need">{t('tables.without', { count: missing })}</span>
      )}
    </>
  );
}

export function Amount({ sum, currency, isMixed }: { sum: string; currency: string | null; isMixed?: boolean }) {
  const options = currency === null ? {} : { minimumFractionDigits: 2 };
  return (
    <>
      {formatNumber(Number(sum), { maximumFractionDigits: 4, ...options })}{' '}
      <span
        className="font-normal text-muted-foreground"
        title={currency === null ? t('tables.noCurrency') : undefined}>
        {currency === null ? isMixed && t('tables.none') : visibleText(currency)}
      </span>
    </>
  );
}

/** Return the length of the longest sum of a column, in characters. */
export function totalsLength(totals: readonly ColumnTotal[]): number {
  const lengths = totals.map(({ sum, currency }) => formatNumber(Number(sum)).length + (currency === null ? 0 : 4));
  return Math.max(0, ...lengths);
}
