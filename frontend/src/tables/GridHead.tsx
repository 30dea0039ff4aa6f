/** The header of a grid. The whole head of a column sorts; its chevron, a right click and Alt+↓ open the column's menu. */

import type { VirtualItem } from '@tanstack/react-virtual';
import { ArrowDown, ArrowUp, ChevronDown, ChevronRight } from 'lucide-react';
import { useRef } from 'react';
import { cn } from '../components/ui/cn';
import { t } from '../shared/i18n';
import type { GridProps } from './Grid';
import styles from './Grid.module.css';
import { cellId, clamp, type Cursor } from './grid';
import { DOCUMENT, FIRST, type GridColumn, MAX_WIDTH, MIN_WIDTH, resizeColumn } from './gridColumns';

interface Props
  extends Pick<
    GridProps,
    'table' | 'columns' | 'required' | 'total' | 'sort' | 'selection' | 'onSort' | 'onMenu' | 'isNameless'
  > {
  shown: readonly VirtualItem[];
  /** Pixels. */
  width: number;
  active: Cursor;
  /** The number of columns at the right that are not in view. */
  more: number;
}

export function GridHead(props: Props) {
  const { shown, width, active, more, columns, selection, total, sort, onSort, table, required, onMenu, isNameless } =
    props;
  const lastColumn = columns.length + FIRST;
  const common = (column: number) => ({ id: cellId(-1, column), role: 'columnheader', 'aria-colindex': column + 1 });
  const ring = (column: number) => active.row < 0 && active.column === column && styles.active;
  const isAll = selection.size > 0 && selection.size >= Math.min(total, selection.limit);
  return (
    <div className={styles.head} role="row" aria-rowindex={1} style={{ width }}>
      <div className={cn(styles.check, ring(0))} {...common(0)}>
        <input
          type="checkbox"
          tabIndex={-1}
          aria-label={t('tables.selectAll')}
          checked={isAll}
          ref={(element) => {
            if (element !== null) element.indeterminate = selection.size > 0 && !isAll;
          }}
          onChange={selection.toggleAll}
        />
      </div>
      <div className={cn(styles.document, ring(DOCUMENT))} {...common(DOCUMENT)}>
        <span className={cn(isNameless && 'sr-only')}>{t('tables.document')}</span>
      </div>
      {shown.map(({ index, start, size }) => (
        <Head
          key={columns[index]!.path}
          {...common(index + FIRST)}
          table={table}
          required={required}
          onMenu={onMenu}
          column={columns[index]!}
          className={ring(index + FIRST)}
          start={start}
          size={size}
          order={sort.path !== columns[index]!.path ? 'none' : sort.isDescending ? 'descending' : 'ascending'}
          onSort={onSort}
        />
      ))}
      <button
        type="button"
        tabIndex={-1}
        className={cn(styles.status, ring(lastColumn), 'hover:text-foreground')}
        {...common(lastColumn)}
        aria-sort={sort.path === null ? 'ascending' : 'none'}
        title={t('tables.sortByStatus')}
        onClick={() => onSort(null)}>
        {more > 0 && (
          <span className={styles.more} aria-hidden="true">
            +{more}
            <ChevronRight size={13} />
          </span>
        )}
        {t('tables.status')}
        {sort.path === null && <ArrowUp size={13} aria-hidden="true" />}
      </button>
    </div>
  );
}

interface HeadProps extends Pick<GridProps, 'table' | 'required' | 'onSort' | 'onMenu'> {
  column: GridColumn;
  className: string | false | undefined;
  start: number;
  size: number;
  order: 'none' | 'ascending' | 'descending';
}

function Head({ column, table, required, className, start, size, order, onSort, onMenu, ...others }: HeadProps) {
  const Arrow = order === 'descending' ? ArrowDown : ArrowUp;
  const isRequired = required.includes(column.path);
  return (
    <div
      {...others}
      aria-sort={order}
      aria-haspopup="menu"
      className={cn(styles.header, column.type === 'number' && styles.number, className)}
      style={{ left: start, width: size }}
      onContextMenu={(event) => {
        event.preventDefault();
        onMenu(column);
      }}>
      <button
        type="button"
        tabIndex={-1}
        className={styles.sort}
        title={t('tables.sortBy', { column: column.label })}
        onClick={() => onSort(column.path)}>
        <span className="line-clamp-2 min-w-0 leading-3.5">
          {column.label}
          {isRequired && (
            <span title={t('tables.required')}>
              <span aria-hidden="true">{'\u00a0'}*</span>
              <span className="sr-only">{t('tables.required')}</span>
            </span>
          )}
        </span>
        {order !== 'none' && <Arrow size={13} className="shrink-0" aria-hidden="true" />}
      </button>
      <button
        type="button"
        tabIndex={-1}
        className={styles.chevron}
        aria-label={t('tables.columnMenu', { column: column.label })}
        onClick={() => onMenu(column)}>
        <ChevronDown size={14} aria-hidden="true" />
      </button>
      <ResizeHandle width={size} onResize={(pixels) => resizeColumn(table, column.path, pixels)} />
    </div>
  );
}

/** The right edge of a header: dragging it resizes the column. */
function ResizeHandle({ width, onResize }: { width: number; onResize: (pixels: number) => void }) {
  const from = useRef<{ x: number; width: number } | null>(null);
  return (
    <span
      className={styles.resize}
      aria-hidden="true"
      onPointerDown={(event) => {
        event.stopPropagation();
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { x: event.clientX, width };
      }}
      onPointerMove={(event) => {
        if (from.current !== null)
          onResize(clamp(from.current.width + event.clientX - from.current.x, MIN_WIDTH, MAX_WIDTH));
      }}
      onPointerUp={() => {
        from.current = null;
      }}
    />
  );
}
