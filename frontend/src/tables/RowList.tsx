/** The rows of a table on a phone: a list with the main values and what a person has to look at. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useImperativeHandle, useRef, useState } from 'react';
import type { RecordRow } from '../api/types';
import { Checkbox } from '../components/ui/Checkbox';
import { cn } from '../components/ui/cn';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { cellIcon, cellStatus, cellStatusText, isBeingRead, needsLook, rowProblem, RowState } from './cellStatus';
import { displayCell } from './cellValue';
import { ColumnTotals } from './ColumnTotals';
import type { GridProps } from './Grid';
import { DOCUMENT, FIRST, type GridColumn } from './gridColumns';
import { rowKey } from '../records/tableQueries';

const ROW = 60; // pixels

type Props = Pick<
  GridProps,
  | 'ref'
  | 'label'
  | 'columns'
  | 'total'
  | 'isPrevious'
  | 'rowAt'
  | 'selection'
  | 'canWrite'
  | 'totals'
  | 'onActive'
  | 'onPane'
  | 'onRange'
> & { chosen: number };

export function RowList(props: Props) {
  const { ref, label, columns, total, isPrevious, rowAt, selection, canWrite, totals, chosen } = props;
  const { onActive, onPane, onRange } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLUListElement>(null);
  /** The row that gets the focus once it is shown. */
  const [focused, setFocused] = useState<number | null>(null);
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 6,
  });
  const first = rows.range?.startIndex ?? 0;
  const last = rows.range?.endIndex ?? 0;
  useEffect(() => onRange(Math.max(0, first - 8), last + 8), [first, last, onRange]);
  useEffect(() => {
    if (focused === null) return;
    const row = list.current?.querySelector<HTMLElement>(`[data-row="${focused}"]`);
    if (row == null) return;
    row.focus();
    setFocused(null);
  });
  useImperativeHandle(ref, (): { focus: () => void; show: (cell: { row: number; column: number }) => void } => ({
    focus: () => setFocused(Math.max(0, chosen)),
    show: (cell) => {
      onActive(cell);
      rows.scrollToIndex(cell.row, { align: 'auto' });
    },
  }));
  const main = mainColumns(
    columns,
    rows.getVirtualItems().map(({ index }) => rowAt(index)),
  );
  const open = (index: number, row: RecordRow) => {
    const at = columns.findIndex(({ path }) => needsLook(row.cells[path]));
    onActive({ row: index, column: at < 0 ? DOCUMENT : at + FIRST });
    onPane(true);
  };
  const sums = main.amount === undefined ? undefined : totals.byColumn.get(main.amount.path);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div ref={scroller} className="min-h-0 flex-1 overflow-y-auto" tabIndex={-1} aria-busy={isPrevious}>
        <ul ref={list} aria-label={label} className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const row = rowAt(index);
            return (
              <li
                key={row === undefined ? index : rowKey(row)}
                aria-setsize={total}
                aria-posinset={index + 1}
                className={cn(
                  'absolute inset-x-0 top-0 flex h-[60px] border-b border-line',
                  index === chosen && 'bg-accent',
                )}
                style={{ transform: `translateY(${start}px)` }}>
                {row === undefined ? (
                  <span className="m-4 h-4 w-40 rounded-full bg-muted" />
                ) : (
                  <>
                    {canWrite && (
                      <span className="flex w-11 shrink-0 items-center justify-center [&>*]:before:-inset-3.5">
                        <Checkbox
                          checked={selection.has(row)}
                          label={t('tables.selectRow', { name: visibleText(row.filename) })}
                          onChange={() => selection.toggle(index, rowAt)}
                        />
                      </span>
                    )}
                    <button
                      type="button"
                      data-row={index}
                      aria-current={index === chosen ? 'true' : undefined}
                      className={cn('min-w-0 flex-1 py-2 pr-4 text-left -outline-offset-2', !canWrite && 'pl-4')}
                      onClick={() => open(index, row)}>
                      <Card row={row} main={main} mixed={totals.mixed} />
                    </button>
                  </>
                )}
              </li>
            );
          })}
        </ul>
      </div>
      {sums !== undefined && (
        <p className="flex shrink-0 items-baseline justify-between gap-4 border-t border-border bg-sidebar px-4 py-2">
          <span className="text-muted-foreground">{main.amount!.label}</span>
          <span className="text-right font-medium">
            <ColumnTotals totals={sums} rows={total} decimals={main.amount!.decimals} />
          </span>
        </p>
      )}
    </div>
  );
}

/** The columns that say what a row is. */
interface MainColumns {
  title: GridColumn | undefined;
  second: GridColumn | undefined;
  day: GridColumn | undefined;
  amount: GridColumn | undefined;
}

/** The first texts and the first date, and of the columns of amounts the one with the largest: a total exceeds its parts. */
function mainColumns(columns: readonly GridColumn[], rows: readonly (RecordRow | undefined)[]): MainColumns {
  const [title, second] = columns.filter(({ type }) => type === 'text');
  const size = ({ path }: GridColumn) =>
    rows.reduce((sum, row) => {
      const value = row?.cells[path]?.value;
      return sum + (typeof value === 'number' ? value : 0);
    }, 0);
  const numbers = columns.filter(({ type }) => type === 'number');
  const amounts = numbers.filter(({ decimals }) => decimals > 0);
  const [amount] = (amounts.length > 0 ? amounts : numbers).toSorted((a, b) => size(b) - size(a));
  return { title, second, day: columns.find(({ type }) => type === 'date'), amount };
}

interface CardProps {
  row: RecordRow;
  main: MainColumns;
  mixed: ReadonlySet<string>;
}

function Card({ row, main, mixed }: CardProps) {
  const { title, second, day, amount } = main;
  const isWaiting = isBeingRead(row);
  const problem = row.error === null ? undefined : rowProblem(row);
  const name = visibleText(row.filename);
  const hasTitle = title !== undefined && row.cells[title.path]?.value != null;
  const hasNoValues = [second, day].every((column) => column === undefined || row.cells[column.path]?.value == null);
  const amountCell = amount === undefined ? undefined : row.cells[amount.path];
  return (
    <>
      <span className="flex items-baseline gap-3">
        <span className="min-w-0 flex-1 truncate text-base font-medium">
          {hasTitle ? <Value row={row} column={title} /> : name}
        </span>
        {amount !== undefined && (
          <span className="flex shrink-0 items-baseline gap-1 text-base">
            {isWaiting && amountCell?.value == null ? (
              <span className="h-3 w-16 animate-shimmer self-center rounded-full bg-muted" />
            ) : (
              <Value row={row} column={amount} />
            )}
            {mixed.has(amount.path) && amountCell?.currency != null && (
              <span className="text-xs text-muted-foreground">{visibleText(amountCell.currency)}</span>
            )}
          </span>
        )}
      </span>
      <span className="mt-1 flex items-center gap-3 text-xs text-muted-foreground">
        <span className="min-w-0 flex-1 truncate">
          {problem ??
            (hasNoValues ? (
              hasTitle && name
            ) : (
              <>
                {second !== undefined && <Value row={row} column={second} />}
                {day !== undefined && (
                  <>
                    {row.cells[second?.path ?? '']?.value != null && ' · '}
                    <Value row={row} column={day} />
                  </>
                )}
              </>
            ))}
        </span>
        <RowState row={row} />
      </span>
    </>
  );
}

/** A value; amber with a sign if a person has to look at it. */
function Value({ row, column }: { row: RecordRow; column: GridColumn }) {
  const cell = row.cells[column.path];
  const text = displayCell(cell, column);
  if (!needsLook(cell)) return text;
  const Sign = cellIcon(cellStatus(cell));
  return (
    <span className="inline-flex min-w-0 items-center gap-1 text-need">
      {Sign !== undefined && <Sign size={13} className="shrink-0" aria-hidden="true" />}
      <span className={cn('truncate', text !== '' && 'underline decoration-dotted underline-offset-2')}>
        {text || cellStatusText(cell)}
      </span>
      {text !== '' && <span className="sr-only">{cellStatusText(cell)}</span>}
    </span>
  );
}
