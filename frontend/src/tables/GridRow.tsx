/** A row of the grid: a document or a list item, with the cells of the columns on the screen. */

import { Link } from '@tanstack/react-router';
import type { VirtualItem } from '@tanstack/react-virtual';
import { memo } from 'react';
import type { RecordCell, RecordRow } from '../api/types';
import { Badge } from '../shared/Badge';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon, type IconName } from '../shared/Icon';
import { codeText, readingErrorText } from '../shared/codeText';
import type { RowMarks } from './rowMarks';
import { CellInput } from './CellInput';
import { statusLabel, statusSign } from '../document/fields/fieldStatus';
import { cellStatus, cellStatusText, isRead, needsLook, ROW_STATUSES, rowStatus } from './cellStatus';
import { displayCell } from './cellValue';
import styles from './Grid.module.css';
import { DOCUMENT, FIRST, type GridColumn } from './gridColumns';
import { Thumbnail } from './Thumbnail';

export function cellId(row: number, column: number): string {
  return `cell-${row}-${column}`;
}

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
  marks: RowMarks | undefined;
  onFinish: (text: string | null, by: { row: number; column: number } | 'next' | null) => string | null;
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
  marks,
  onFinish,
  onSelect,
  onPeek,
  onOpen,
}: Props) {
  const lastColumn = columns.length + FIRST;
  const names = (column: number, ...more: (string | false | undefined)[]) =>
    [...more, activeColumn === column && styles.active, column >= rangeLeft && column <= rangeRight && styles.inRange]
      .filter(Boolean)
      .join(' ');
  const common = (column: number) => ({
    id: cellId(index, column),
    role: 'gridcell',
    'aria-colindex': column + 1,
    'data-cell': `${index} ${column}`,
  });
  const problem = record === undefined ? undefined : rowProblem(record);
  // Across the row, in place of its values.
  const why =
    record !== undefined && Object.values(record.cells).every(({ value }) => value === null)
      ? failureText(record)
      : undefined;
  return (
    <div
      className={`${styles.row} ${isSelected ? styles.selected : ''}`}
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
              className={`${styles.name} truncate`}
              title={visibleText(record.filename)}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                onOpen(record, undefined, undefined);
              }}>
              {visibleText(record.filename)}
            </a>
            {why !== undefined && <span className={styles.why}>{why}</span>}
            {record.duplicate_of !== null && (
              <Link
                to="/documents/$documentId"
                params={{ documentId: record.duplicate_of }}
                tabIndex={-1}
                className={`${styles.why} ${styles.copy}`}>
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
            ) : !hasValues(record) || why !== undefined ? null : (
              <CellContent
                cell={cell}
                column={column}
                withCurrency={mixed.has(column.path)}
                outlier={cell === undefined ? undefined : marks?.outliers.get(cell.path)}
              />
            )}
          </div>
        );
      })}
      <div
        className={names(lastColumn, styles.status)}
        {...common(lastColumn)}
        aria-haspopup={problem === undefined ? undefined : 'dialog'}
        onClick={(event) => problem !== undefined && !event.shiftKey && onPeek()}>
        {record !== undefined && <RowBadge row={record} duplicates={marks?.duplicate} />}
      </div>
    </div>
  );
}

/** Whether the row was read, at least in part: before, its empty cells say nothing about the document. */
function hasValues(row: RecordRow): boolean {
  const isOpen = row.status === 'waiting' || row.status === 'running' || row.status === 'awaiting_approval';
  return isRead(row) && (!isOpen || Object.values(row.cells).some(({ value }) => value !== null));
}

function CellContent({
  cell,
  column,
  withCurrency,
  outlier,
}: {
  cell: RecordCell | undefined;
  column: GridColumn;
  withCurrency: boolean;
  outlier: string | undefined;
}) {
  const status = cellStatus(cell);
  const icon = status.status === 'found' ? undefined : statusSign(status).icon;
  const label = cellStatusText(cell);
  if (cell === undefined || cell.value === null) {
    if (needsLook(cell) && status.status !== 'stale') {
      return (
        <>
          <span className={`${styles.missing} truncate`}>{statusLabel(status)}</span>
          {icon !== undefined && <Sign icon={icon} label={label} />}
        </>
      );
    }
    return (
      <span className={styles.none} title={label}>
        <span aria-hidden="true">{'–'}</span>
        <span className="sr-only">{label}</span>
      </span>
    );
  }
  const text = displayCell(cell, column);
  return (
    <>
      {withCurrency && cell?.currency != null && <span className={styles.currency}>{visibleText(cell.currency)}</span>}
      <span className="truncate" title={text}>
        {text}
      </span>
      {outlier !== undefined && <Sign icon="outlier" label={outlier} />}
      {icon !== undefined && <Sign icon={icon} label={label} />}
    </>
  );
}

function Sign({ icon, label }: { icon: IconName; label: string }) {
  return (
    <span className={`${styles.sign} ${icon === 'outlier' ? styles.outlier : ''}`} title={label}>
      <Icon name={icon} size={12} />
      <span className="sr-only">{label}</span>
    </span>
  );
}

/** Return why a row failed or is incomplete. */
export function rowProblem(row: RecordRow): string | undefined {
  return failureText(row) ?? (row.status === 'incomplete' ? t('tables.whyIncomplete') : undefined);
}

/** Return why a row failed. */
function failureText(row: RecordRow): string | undefined {
  return row.error === null
    ? undefined
    : codeText('runErrors', row.error_code, readingErrorText(row.error_code, row.error));
}

function RowBadge({ row, duplicates }: { row: RecordRow; duplicates: string | undefined }) {
  const { status, count } = rowStatus(row);
  const { tone, icon } = ROW_STATUSES[status];
  const why = rowProblem(row);
  return (
    <span
      className={styles.badges}
      title={why ?? (duplicates === undefined ? undefined : t('tables.duplicateOf', { name: duplicates }))}>
      {duplicates !== undefined && (
        <span className={styles.sign}>
          <Icon name="copy" size={13} />
          <span className="sr-only">{t('tables.duplicateOf', { name: duplicates })}</span>
        </span>
      )}
      <Badge tone={tone} icon={icon}>
        {status === 'to_check' ? t('tables.toCheck', { count }) : t(`tables.rowStatuses.${status}`)}
        {status === 'incomplete' && count > 0 ? ` (${formatNumber(count)})` : ''}
      </Badge>
    </span>
  );
}
