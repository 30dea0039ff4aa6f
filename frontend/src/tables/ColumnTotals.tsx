/** The totals of a column: the sum in each currency, and how many rows have no number. */

import type { ColumnTotal } from '../api/types';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';

/** The totals by column: of the most frequent currency first, the same order in each column. */
export interface Totals {
  byColumn: ReadonlyMap<string, readonly ColumnTotal[]>;
  /** The columns whose numbers have several currencies. */
  mixed: ReadonlySet<string>;
  /** The currencies of all sums, a line for each; null: none. */
  currencies: readonly (string | null)[];
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
    currencies: [...weights].sort(([, a], [, b]) => b - a).map(([currency]) => currency),
  };
}

interface Props {
  totals: readonly ColumnTotal[];
  /** The number of rows; undefined if the column's numbers are not those of the rows. */
  rows: number | undefined;
  /** The decimal places of the column's numbers. */
  decimals: number;
  /** The currency of each line, which is shown elsewhere; without, that of each sum is shown beside it. */
  lines?: Totals['currencies'];
}

export function ColumnTotals({ totals, rows, decimals, lines }: Props) {
  const missing = rows === undefined ? 0 : rows - totals.reduce((sum, { count }) => sum + count, 0);
  return (
    <>
      {(lines ?? totals.map(({ currency }) => currency)).map((currency) => {
        const one = totals.find((total) => total.currency === currency);
        return (
          <span key={currency} className="block truncate">
            {one === undefined ? '\u00a0' : sumText(one, decimals)}{' '}
            <span className={lines === undefined ? 'font-normal text-muted-foreground' : 'sr-only'}>
              {one !== undefined && currencyText(currency, totals.length > 1)}
            </span>
          </span>
        );
      })}
      {missing > 0 && (
        <span className="block truncate font-normal text-need">{t('tables.without', { count: missing })}</span>
      )}
    </>
  );
}

/** `decimals`: the decimal places of the column's numbers. */
export function sumText({ sum, currency }: ColumnTotal, decimals: number): string {
  const minimumFractionDigits = Math.min(Math.max(decimals, currency === null ? 0 : 2), 4);
  return formatNumber(Number(sum), { minimumFractionDigits, maximumFractionDigits: 4 });
}

/** `isMixed`: whether there are sums in currencies, too. */
export function currencyText(currency: string | null, isMixed: boolean): string {
  return currency === null ? (isMixed ? t('tables.noCurrency') : '') : visibleText(currency);
}
