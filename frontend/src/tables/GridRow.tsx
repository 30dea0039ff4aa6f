/** A row of the grid: a document or a list item, with the cells of the columns on the screen. */

import { Link } from '@tanstack/react-router';
import type { VirtualItem } from '@tanstack/react-virtual';
import { ChartColumn, Copy, type LucideIcon } from 'lucide-react';
import { memo } from 'react';
import type { RecordCell, RecordRow } from '../api/types';
import { cn } from '../components/ui/cn';
import { statusLabel } from '../fields/fieldStatus';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { CellInput } from './CellInput';
import {
  cellIcon,
  cellStatus,
  cellStatusText,
  isBeingRead,
  isRead,
  needsLook,
  RowState,
  rowProblem,
} from './cellStatus';
import { displayCell, ownCurrency } from './cellValue';
import styles from './Grid.module.css';
import { cellId, type Leaving } from './grid';
import { DOCUMENT, FIRST, type GridColumn } from './gridColumns';
import type { RowMarks } from '../records/rowMarks';
import { Thumbnail } from './Thumbnail';

interface Props {
  index: number;
  /** Pixels from the top of the rows. */
  top: number;
  /** undefined: not loaded yet. */
  record: RecordRow | undefined;
  columns: readonly GridColumn[];
  shown: readonly VirtualItem[];
  isSelected: boolean;
  /** -1: none in this row; so for the edges of the range. */
  activeColumn: number;
  rangeLeft: number;
  rangeRight: number;
  editing: { text?: string } | null;
  mixed: ReadonlySet<string>;
  isNameless: boolean;
  marks: RowMarks | undefined;
  onFinish: (text: string | null, by: Leaving) => string | null;
  onSelect: (isRange: boolean) => void;
  onPeek: () => void;
  onOpen: (row: RecordRow, cell: RecordCell | undefined, column: GridColumn | undefined) => void;
}

export const GridRow = memo(Row, isSame);

/** Functions are new in each rendering of the grid, and do the same for an unchanged row. */
function isSame(before: Props, now: Props): boolean {
  const keys = [
    'index',
    'top',
    'record',
    'columns',
    'shown',
    'isSelected',
    'activeColumn',
    'rangeLeft',
    'rangeRight',
    'editing',
    'mixed',
    'isNameless',
    'marks',
  ] as const;
  return before.activeColumn < 0 && keys.every((key) => before[key] === now[key]);
}

function Row({
  index,
  top,
  record,
  columns,
  shown,
  isSelected,
  activeColumn,
  rangeLeft,
  rangeRight,
  editing,
  mixed,
  isNameless,
  marks,
  onFinish,
  onSelect,
  onPeek,
  onOpen,
}: Props) {
  const lastColumn = columns.length + FIRST;
  const names = (column: number, ...more: (string | false | undefined)[]) =>
    cn(
      ...more,
      activeColumn === column && styles.active,
      column >= rangeLeft && column <= rangeRight && styles.inRange,
    );
  const common = (column: number) => ({
    id: cellId(index, column),
    role: 'gridcell',
    'aria-colindex': column + 1,
    'data-cell': `${index} ${column}`,
  });
  // Across the row, in place of its values.
  const why =
    record?.error != null && Object.values(record.cells).every(({ value }) => value === null)
      ? rowProblem(record)
      : undefined;
  const isWaiting = record !== undefined && isBeingRead(record);
  /** Over the first column, while that has no value. */
  const isNameOver =
    isNameless &&
    record !== undefined &&
    (!isRead(record) || why !== undefined || (isWaiting && record.cells[columns[0]?.path ?? '']?.value == null));
  return (
    <div
      className={cn(
        styles.row,
        isSelected && styles.selected,
        activeColumn >= 0 && styles.current,
        isWaiting && styles.waiting,
      )}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      style={{ transform: `translateY(${top}px)` }}>
      <div className={names(0, styles.check)} {...common(0)}>
        {record !== undefined && (
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={t('tables.selectRow', { name: visibleText(record.filename) })}
            checked={isSelected}
            onChange={(event) => onSelect((event.nativeEvent as unknown as MouseEvent).shiftKey)}
          />
        )}
      </div>
      <div className={names(DOCUMENT, styles.document)} {...common(DOCUMENT)}>
        {record === undefined ? (
          <span className={styles.placeholder} />
        ) : (
          <>
            <Thumbnail
              documentId={record.document_id}
              isReadable={record.status !== 'failed' || record.extraction_id !== null}
            />
            {/* (Not a Link: hundreds of rows are drawn while scrolling.) */}
            <a
              href={`/documents/${record.document_id}`}
              tabIndex={-1}
              className={cn(
                'truncate font-medium text-inherit no-underline hover:underline',
                isNameless && (isNameOver ? styles.name : 'sr-only'),
              )}
              title={visibleText(record.filename)}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                onOpen(record, undefined, undefined);
              }}>
              {visibleText(record.filename)}
            </a>
            {why !== undefined && <span className={cn(styles.why, isNameOver && styles.afterName)}>{why}</span>}
            {record.duplicate_of !== null && (
              <Link
                to="/documents/$documentId"
                params={{ documentId: record.duplicate_of }}
                tabIndex={-1}
                className={cn(styles.why, styles.copy, isNameOver && styles.afterName)}>
                {t('tables.sameFileAs', { name: visibleText(record.duplicate_of_filename ?? '') })}
              </Link>
            )}
          </>
        )}
      </div>
      {shown.map(({ index: at, start, size }) => {
        const column = columns[at];
        if (column === undefined) return null;
        const cell = record?.cells[column.path];
        const isEditing = activeColumn === at + FIRST && editing !== null;
        return (
          <div
            key={column.path}
            {...common(at + FIRST)}
            aria-selected={at + FIRST >= rangeLeft && at + FIRST <= rangeRight}
            className={names(
              at + FIRST,
              styles.cell,
              column.type === 'number' && styles.number,
              isEditing && styles.editing,
              isEditing && column.type === 'text' && styles.text,
              styles[cellStatus(cell).status],
            )}
            style={{ left: start, width: size }}
            onClick={(event) => event.detail === 1 && !event.shiftKey && !isEditing && onPeek()}
            onDoubleClick={() => record !== undefined && !isEditing && onOpen(record, cell, column)}>
            {isEditing ? (
              <CellInput column={column} cell={cell} text={editing.text} onFinish={onFinish} />
            ) : record === undefined ? (
              <span className={styles.placeholder} />
            ) : isNameOver && at === 0 && cell?.value == null ? null : isWaiting && cell?.value == null ? (
              <span className={cn(styles.placeholder, record.status === 'running' && 'animate-shimmer')} />
            ) : !isRead(record) || why !== undefined ? null : (
              <CellContent
                cell={cell}
                column={column}
                currency={mixed.has(column.path) ? ownCurrency(record, cell, columns) : null}
                outlier={cell === undefined ? undefined : marks?.outliers.get(cell.path)}
              />
            )}
          </div>
        );
      })}
      <div
        className={names(lastColumn, styles.status)}
        {...common(lastColumn)}
        onClick={(event) => !event.shiftKey && onPeek()}>
        {marks?.duplicate !== undefined && (
          <Sign icon={Copy} label={t('tables.duplicateOf', { name: marks.duplicate })} />
        )}
        {record !== undefined && <RowState row={record} />}
      </div>
    </div>
  );
}

interface ContentProps {
  cell: RecordCell | undefined;
  column: GridColumn;
  /** Shown before the value. */
  currency: string | null;
  outlier: string | undefined;
}

function CellContent({ cell, column, currency, outlier }: ContentProps) {
  const status = cellStatus(cell);
  const icon = cellIcon(status);
  const label = cellStatusText(cell);
  if (cell === undefined || cell.value === null) {
    if (needsLook(cell) && status.status !== 'stale') {
      return (
        <>
          {icon !== undefined && <Sign icon={icon} label={label} />}
          <span className="truncate font-medium text-need">{statusLabel(status)}</span>
        </>
      );
    }
    return (
      <span className="truncate text-faint" title={label}>
        <span aria-hidden="true">{t(status.status === 'blank' ? 'tables.none' : 'tables.empty')}</span>
        <span className="sr-only">{label}</span>
      </span>
    );
  }
  const text = displayCell(cell, column);
  return (
    <>
      {icon !== undefined && <Sign icon={icon} label={label} />}
      {currency !== null && <span className="text-xs text-faint">{visibleText(currency)}</span>}
      <span className={cn('truncate', styles.value)} title={text}>
        {text}
      </span>
      {outlier !== undefined && <Sign icon={ChartColumn} label={outlier} />}
    </>
  );
}

function Sign({ icon: Icon, label }: { icon: LucideIcon; label: string }) {
  return (
    <span className={styles.sign} title={label}>
      <Icon size={13} aria-hidden="true" />
      <span className="sr-only">{label}</span>
    </span>
  );
}
