/** The totals of a column: one sum, or the number of sums, which a press lists by currency. */

import { Popover } from '@base-ui/react/popover';
import { t } from '../shared/i18n';
import { formatAmount } from './cellValue';
import styles from './Tables.module.css';

export function ColumnTotals({ texts }: { texts: readonly string[] }) {
  if (texts.length === 1) return <span title={texts[0]}>{texts[0]}</span>;
  return (
    // (The grid must not take these keys for its own.)
    <span onKeyDown={(event) => event.stopPropagation()}>
      <Popover.Root>
        <Popover.Trigger className={styles.sums} title={texts.join('\n')}>
          {t('tables.sums', { count: texts.length })}
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Positioner className={styles.place} side="top" align="end" sideOffset={4}>
            <Popover.Popup className={styles.popup} aria-label={t('tables.sums', { count: texts.length })}>
              <ul className={styles.sumList}>
                {texts.map((text) => (
                  <li key={text}>{text}</li>
                ))}
              </ul>
            </Popover.Popup>
          </Popover.Positioner>
        </Popover.Portal>
      </Popover.Root>
    </span>
  );
}

/** Return the totals of each column, that of the most frequent currency first, and the columns with several currencies. */
export function totalsByColumn(
  totals: readonly { column: string; currency: string | null; sum: string; count: number }[],
) {
  const foot = new Map<string, string[]>();
  const mixed = new Set(
    totals.map(({ column }) => column).filter((column, index, all) => all.indexOf(column) !== index),
  );
  for (const { column, sum, currency } of totals.toSorted((a, b) => b.count - a.count)) {
    const text = formatAmount(Number(sum), currency);
    const isBare = currency === null && mixed.has(column);
    foot.set(column, [...(foot.get(column) ?? []), isBare ? t('tables.sumWithoutCurrency', { sum: text }) : text]);
  }
  return { foot, mixed };
}
