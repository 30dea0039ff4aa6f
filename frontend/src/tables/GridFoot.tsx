/** The sums under a grid. */

import type { VirtualItem } from '@tanstack/react-virtual';
import type { ColumnTotal } from '../api/types';
import { t } from '../shared/i18n';
import { ColumnTotals, currencyText, type Totals } from './ColumnTotals';
import styles from './Grid.module.css';
import { FIRST, type GridColumn } from './gridColumns';

interface Props {
  columns: readonly GridColumn[];
  shown: readonly VirtualItem[];
  /** Pixels. */
  width: number;
  totals: Totals;
  /** The number of rows. */
  total: number;
  /** Its position among the rows, for screen readers. */
  row: number;
}

export function GridFoot({ columns, shown, width, totals, total, row }: Props) {
  // A field outside the list of the rows is summed once per document.
  const levels = Math.max(0, ...columns.map(({ path }) => path.split('[]').length - 1));
  const missing = (all: readonly ColumnTotal[]) => all.reduce((sum, { count }) => sum + count, 0) < total;
  const lines = totals.currencies.length + Number([...totals.byColumn.values()].some(missing));
  return (
    <div className={styles.foot} role="row" aria-rowindex={row} style={{ width }}>
      <div className={styles.check} role="gridcell" aria-colindex={1} />
      <div className={styles.document} role="gridcell" aria-colindex={2}>
        {t('tables.sumOf', { count: total })}
      </div>
      {/* As high as the tallest of the sums, also of columns that are not in view. */}
      <div aria-hidden="true" style={{ height: `${lines}lh` }} />
      {shown.map(({ index, start, size }) => {
        const { path } = columns[index]!;
        const ofColumn = totals.byColumn.get(path);
        return (
          <div
            key={path}
            className={styles.sum}
            role="gridcell"
            aria-colindex={index + FIRST + 1}
            style={{ left: start, width: size }}>
            {ofColumn !== undefined && (
              <ColumnTotals
                totals={ofColumn}
                rows={path.split('[]').length - 1 === levels ? total : undefined}
                decimals={columns[index]!.decimals}
                lines={totals.currencies}
              />
            )}
          </div>
        );
      })}
      <div className={styles.status} role="gridcell" aria-colindex={columns.length + FIRST + 1} aria-hidden="true">
        <span>
          {totals.currencies.map((currency) => (
            <span key={currency} className="block">
              {currencyText(currency, totals.mixed.size > 0) || '\u00a0'}
            </span>
          ))}
        </span>
      </div>
    </div>
  );
}
