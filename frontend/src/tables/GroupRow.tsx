/** The header of a group in the grid: its value, the number of its rows, and the sums of the number columns. */

import type { VirtualItem } from '@tanstack/react-virtual';
import { ChevronDown, ChevronRight } from 'lucide-react';
import type { ColumnTotal, TableGroup } from '../api/types';
import { cn } from '../components/ui/cn';
import { displayValue } from '../fields/fieldValue';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { ColumnTotals } from './ColumnTotals';
import styles from './Grid.module.css';
import { cellId } from './grid';
import { DOCUMENT, FIRST, type GridColumn } from './gridColumns';
import type { RowGroup } from './groupLines';

interface Props {
  index: number;
  /** Pixels. */
  top: number;
  height: number;
  header: RowGroup;
  /** The group as it is now; undefined: it has no rows any more, or is not listed. */
  now: TableGroup | undefined;
  columns: readonly GridColumn[];
  shown: readonly VirtualItem[];
  /** -1: the cursor is elsewhere. */
  activeColumn: number;
  onToggle: () => void;
}

export function GroupRow({ index, top, height, header, now, columns, shown, activeColumn, onToggle }: Props) {
  const { isOpen, rows } = header;
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  const isActive = activeColumn >= 0;
  const text = groupText(header);
  const cell = (column: number) => ({
    role: 'gridcell',
    'aria-colindex': column + 1,
    'data-cell': `${index} ${column}`,
  });
  return (
    <div
      className={cn(styles.row, styles.group, isActive && styles.current)}
      role="row"
      aria-rowindex={index + 2}
      aria-level={1}
      aria-expanded={isOpen}
      style={{ transform: `translateY(${top}px)`, height }}
      onClick={onToggle}>
      <div
        {...cell(DOCUMENT)}
        id={cellId(index, isActive ? activeColumn : DOCUMENT)}
        className={cn(styles.groupName, isActive && styles.active)}
        title={text}>
        <Chevron size={14} className="shrink-0 text-muted-foreground" aria-hidden="true" />
        <span className="truncate">{text}</span>
        <span className="shrink-0 font-normal text-muted-foreground">{formatNumber(rows)}</span>
        <span className="sr-only">{t('tables.rowCount', { count: rows })}</span>
      </div>
      {shown.map(({ index: at, start, size }) => {
        const { path, decimals } = columns[at]!;
        const totals = now?.totals.filter(({ column }) => column === path) ?? [];
        return (
          totals.length > 0 && (
            <div key={path} {...cell(at + FIRST)} className={styles.sum} style={{ left: start, width: size }}>
              <ColumnTotals totals={totals} rows={undefined} decimals={decimals} />
            </div>
          )
        );
      })}
      <div {...cell(columns.length + FIRST)} className={cn(styles.status, 'text-xs text-need')}>
        {(now?.to_review ?? 0) > 0 && t('tables.needYou', { count: now!.to_review })}
      </div>
    </div>
  );
}

/** The number of sums of the column that has the most. */
export function sumLines(totals: readonly ColumnTotal[]): number {
  const counts = new Map<string, number>();
  for (const { column } of totals) counts.set(column, (counts.get(column) ?? 0) + 1);
  return Math.max(1, ...counts.values());
}

function groupText({ group }: RowGroup): string {
  if (group === undefined) return t('tables.otherGroups');
  const { value, kind } = group;
  if (value === null) return t('fields.nothing');
  const typed = kind === 'number' ? Number(value) : kind === 'boolean' ? value === 'true' : value;
  const type = kind === 'day' ? 'date' : kind === 'number' ? 'number' : 'string';
  return displayValue(typed, { type, decimals: 0 });
}
