/** A table of records as a grid: virtual rows and columns, one active cell, ranges, and rows to select.
 *
 * The grid keeps the focus and names its active cell (aria-activedescendant), so that cells can come and go while it is
 * scrolled. The header is row -1. Column 0 selects rows, column 1 is the document, the last column is the status. */

import { useVirtualizer, defaultRangeExtractor, type Range } from '@tanstack/react-virtual';
import {
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type Ref,
} from 'react';
import type { ReadRow, RecordCell, RecordRow } from '../api/types';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { toast } from '../components/ui/Toast';
import { CellPopover, RowPopover } from './CellPopover';
import { canReadAgain, isRead, type ReadableAgain } from './cellStatus';
import { DOCUMENT, FIRST, MAX_WIDTH, MIN_WIDTH, resizeColumn, type GridColumn } from './gridColumns';
import styles from './Grid.module.css';
import { cellId, GridRow, rowProblem } from './GridRow';
import { gridPosition } from './gridPosition';
import type { RowMarks } from './rowMarks';
import { rowKey, type Selection } from './useSelection';

export const ROW = 40; // pixels
const HEAD = 34;
export const CHECK_WIDTH = 36;
export const STATUS_WIDTH = 156;
const RESIZE_STEP = 16;

export interface Cursor {
  row: number;
  column: number;
}

/** `key`: that of its row, once the row is loaded. */
interface KeyedCursor extends Cursor {
  key?: string | undefined;
}

/** An open editor: of the row as it was shown when the editor was opened. `text`: what was typed to open it. */
interface Editing {
  row: ReadRow;
  column: GridColumn;
  text?: string;
}

/** A rectangle of cells, edges inclusive. */
export interface CellRange {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** What a parent may do with the grid. */
export interface GridHandle {
  focus: () => void;
  /** Make a cell active and open its source; null: close the source. */
  show: (cell: Cursor | null) => void;
}

interface Props {
  ref: Ref<GridHandle>;
  /** Identifies the table, and its filter and order, for the layout and the scroll position. */
  table: string;
  view: string;
  label: string;
  /** Pixels of the column of documents. */
  documentWidth: number;
  /** The status stays in view when the columns are scrolled. */
  isStatusFixed: boolean;
  columns: readonly GridColumn[];
  total: number;
  isPrevious: boolean;
  rowAt: (index: number) => RecordRow | undefined;
  marksAt: (index: number) => RowMarks | undefined;
  indexOf: (key: string) => number | undefined;
  /** By the column with this path, or by the status of the rows (null). */
  sort: { path: string | null | undefined; isDescending: boolean };
  selection: Selection;
  canWrite: boolean;
  /** The columns whose numbers have several currencies. */
  mixed: ReadonlySet<string>;
  foot: ReadonlyMap<string, ReactNode>;
  onRange: (from: number, to: number) => void;
  onSort: (path: string | null) => void;
  onOpen: (row: RecordRow, cell: RecordCell | undefined, column: GridColumn | undefined) => void;
  /** Save typed text. Return why it is not valid; null if it is. */
  onEdit: (row: ReadRow, column: GridColumn, text: string) => string | null;
  onConfirm: (row: ReadRow, column: GridColumn) => void;
  /** Accept or reject what is proposed for the cell. Return false if its source shows no proposal. */
  onDecide: (row: ReadRow, column: GridColumn, accepted: boolean) => boolean;
  onConfirmRange: (range: CellRange) => void;
  /** Go to the next cell that needs a look. */
  onNext: (at: Cursor) => void;
  onClear: (range: CellRange) => void;
  onCopy: (range: CellRange, event: ClipboardEvent) => void;
  onPaste: (range: CellRange, text: string) => void;
  onUndo: () => void;
  /** undefined: the rows of this table cannot be read again. */
  onReadAgain: ((row: ReadableAgain) => void) | undefined;
}

const PRINTABLE = /^[^\p{C}]$/u;

export function Grid({
  ref,
  table,
  view,
  label,
  documentWidth,
  isStatusFixed,
  columns,
  total,
  isPrevious,
  rowAt,
  marksAt,
  indexOf,
  sort,
  selection,
  canWrite,
  mixed,
  foot,
  onRange,
  onSort,
  onOpen,
  onEdit,
  onConfirm,
  onDecide,
  onConfirmRange,
  onNext,
  onClear,
  onCopy,
  onPaste,
  onUndo,
  onReadAgain,
}: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const position = gridPosition(table, view);
  const [cursor, setCursor] = useState<KeyedCursor>(position.cursor);
  const [anchor, setAnchor] = useState<Cursor | null>(null);
  const [opened, setEditing] = useState<Editing | null>(null);
  const [isPeeking, setPeeking] = useState(false);
  const isDragging = useRef(false);
  const lastColumn = columns.length + FIRST;
  const left = CHECK_WIDTH + documentWidth;

  // The cursor stays on its row when rows come or go above it.
  const keyAt = (index: number) => {
    const one = isPrevious ? undefined : rowAt(index);
    return one === undefined ? undefined : rowKey(one);
  };
  const keyNow = keyAt(cursor.row);
  if (keyNow !== undefined && keyNow !== cursor.key) {
    const to = (cursor.key === undefined ? undefined : indexOf(cursor.key)) ?? cursor.row;
    if (anchor !== null && to !== cursor.row) setAnchor({ ...anchor, row: Math.max(0, anchor.row + to - cursor.row) });
    setCursor({ row: to, column: cursor.column, key: keyAt(to) });
  }
  const active = { row: Math.min(cursor.row, total - 1), column: Math.min(cursor.column, lastColumn) };
  const range = rangeOf(anchor, active);
  useEffect(() => {
    position.cursor = active;
  });
  useEffect(() => {
    // Back from a document that was opened here.
    if (position.hasFocus && document.activeElement === document.body) focus();
  }, []);
  const followed = useRef({ row: cursor.row, key: cursor.key });
  useLayoutEffect(() => {
    const before = followed.current;
    followed.current = { row: cursor.row, key: cursor.key };
    const moved = cursor.row - before.row;
    if (before.key !== undefined && before.key === cursor.key && moved !== 0 && position.top > 0)
      scroller.current?.scrollBy({ top: moved * ROW });
  }, [cursor.row, cursor.key, position]);

  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 8,
    scrollMargin: HEAD,
    scrollPaddingStart: HEAD,
    scrollPaddingEnd: foot.size > 0 ? HEAD : 0,
    initialOffset: position.top,
    // The active cell stays mounted while the grid is scrolled: aria-activedescendant refers to it.
    rangeExtractor: (shown) => withActive(shown, active.row),
  });
  const across = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => columns[index]?.width ?? MIN_WIDTH,
    overscan: 2,
    paddingStart: left,
    paddingEnd: STATUS_WIDTH,
    scrollPaddingStart: left,
    scrollPaddingEnd: isStatusFixed ? STATUS_WIDTH : 0,
    initialOffset: position.left,
    rangeExtractor: (shown) => withActive(shown, active.column - FIRST),
  });
  useLayoutEffect(() => across.measure(), [across, columns, left]);
  const [ofView, setOfView] = useState(view);
  if (ofView !== view) {
    setOfView(view);
    setAnchor(null);
    setPeeking(false);
    setEditing(null);
    setCursor({ row: Math.min(cursor.row, 0), column: cursor.column });
  }
  useEffect(() => {
    scroller.current?.scrollTo({ top: position.top });
  }, [position]);
  const shownRows = rows.getVirtualItems();
  const shownColumns = across.getVirtualItems();
  const first = rows.range?.startIndex ?? 0;
  const last = rows.range?.endIndex ?? 0;
  useEffect(() => onRange(Math.max(0, first - 8), last + 8), [first, last, onRange]);

  function moveTo(row: number, column: number, how: { extend?: boolean; keepPeeking?: boolean } = {}) {
    const to = { row: clamp(row, -1, total - 1), column: clamp(column, 0, lastColumn) };
    setEditing(null);
    if (how.keepPeeking !== true) setPeeking(false);
    setAnchor(how.extend === true ? (anchor ?? active) : null);
    setCursor({ ...to, key: keyAt(to.row) });
    if (to.row >= 0) rows.scrollToIndex(to.row, { align: 'auto' });
    const at = to.column - FIRST;
    // Of a column that is wider than the room between the fixed ones, its start is shown.
    const room = (scroller.current?.clientWidth ?? 0) - left - (isStatusFixed ? STATUS_WIDTH : 0);
    if (at >= 0 && at < columns.length)
      across.scrollToIndex(at, { align: columns[at]!.width > room ? 'start' : 'auto' });
    else document.getElementById(cellId(-1, to.column))?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  useImperativeHandle(ref, () => ({
    focus,
    show: (cell) => {
      if (cell !== null) moveTo(cell.row, cell.column, { keepPeeking: true });
      setPeeking(cell !== null);
    },
  }));

  const shownRow = active.row >= 0 ? rowAt(active.row) : undefined;
  const row = shownRow !== undefined && isRead(shownRow) ? shownRow : undefined;
  const column = columns[active.column - FIRST];
  const cell = column === undefined ? undefined : row?.cells[column.path];
  // Its row may have moved, or its column may be gone.
  const editing =
    opened !== null && row !== undefined && rowKey(row) === rowKey(opened.row) && column?.path === opened.column.path
      ? opened
      : null;
  const isGone = opened !== null && editing === null;
  useEffect(() => {
    if (!isGone) return;
    setEditing(null);
    toast(t('errors.version_changed'), { urgent: true });
  }, [isGone]);
  const canEdit = canWrite && row !== undefined && column !== undefined;
  const problem = shownRow === undefined || active.column !== lastColumn ? undefined : rowProblem(shownRow);
  const pageRows = Math.max(1, Math.floor(((scroller.current?.clientHeight ?? 0) - 2 * HEAD) / ROW) - 1);

  /** Return whether the key was handled. */
  function press(event: KeyboardEvent): boolean {
    const { key, shiftKey: extend } = event;
    const mod = event.ctrlKey || event.metaKey;
    if (event.altKey) {
      if (key === 'ArrowDown') {
        onNext(active);
        return true;
      }
      if (key !== 'Enter' || !canEdit || cell?.reason !== 'proposal') return false;
      if (!event.repeat) decide(row, column, true);
      return true;
    }
    switch (key) {
      case 'ArrowDown':
      case 'ArrowUp': {
        const by = key === 'ArrowDown' ? 1 : -1;
        moveTo(mod ? (by > 0 ? total - 1 : 0) : active.row + by, active.column, { extend });
        return true;
      }
      case 'ArrowRight':
      case 'ArrowLeft': {
        const by = key === 'ArrowRight' ? 1 : -1;
        // On a header, as its edge is dragged with the mouse.
        if (extend && active.row < 0 && column !== undefined) {
          resizeColumn(table, column.path, clamp(column.width + by * RESIZE_STEP, MIN_WIDTH, MAX_WIDTH));
          return true;
        }
        moveTo(active.row, mod ? (by > 0 ? lastColumn : DOCUMENT) : active.column + by, { extend });
        return true;
      }
      case 'Home':
        moveTo(mod ? 0 : active.row, DOCUMENT, { extend });
        return true;
      case 'End':
        moveTo(mod ? total - 1 : active.row, lastColumn, { extend });
        return true;
      case 'PageDown':
      case 'PageUp':
        moveTo(Math.max(0, active.row + (key === 'PageDown' ? pageRows : -pageRows)), active.column, { extend });
        return true;
      case 'Escape':
        if (!isPeeking && anchor === null && selection.size === 0) return false;
        if (!isPeeking && anchor === null) selection.clear();
        setPeeking(false);
        setAnchor(null);
        return true;
      case 'Enter':
        if (event.repeat) return true;
        enter(mod, extend);
        return true;
      case 'F2':
        if (canEdit) startEditing(row, column);
        return canEdit;
      case 'Delete':
      case 'Backspace':
        if (canWrite) onClear(range);
        return true;
      case ' ':
        if (active.row < 0) selection.toggleAll();
        else if (extend || active.column === 0) selection.toggle(active.row, rowAt);
        else if (column !== undefined || problem !== undefined) setPeeking(!isPeeking);
        return true;
      default:
    }
    if (mod && key.toLowerCase() === 'a') selection.toggleAll();
    else if (mod && key.toLowerCase() === 'z') onUndo();
    else if (!mod && canEdit && PRINTABLE.test(key) && column.type !== 'boolean') startEditing(row, column, key);
    else return false;
    return true;
  }

  function enter(mod: boolean, shift: boolean) {
    if (active.row < 0) {
      if (column !== undefined || active.column === lastColumn) onSort(column?.path ?? null);
      else if (active.column === 0) selection.toggleAll();
    } else if (mod && anchor !== null && canWrite) onConfirmRange(range);
    else if (shownRow === undefined) return;
    else if (active.column === 0) selection.toggle(active.row, rowAt);
    else if (problem !== undefined && !shift) setPeeking(!isPeeking);
    else if (column === undefined || shift || row === undefined) onOpen(shownRow, cell, column);
    else if (!canWrite) setPeeking(!isPeeking);
    else if (mod) confirm(row, column);
    else startEditing(row, column);
  }

  function focus() {
    scroller.current?.focus({ preventScroll: true });
  }

  /** Confirm the value: what is proposed in its place is rejected. */
  function confirm(of: ReadRow, at: GridColumn) {
    if (of.cells[at.path]?.reason === 'proposal') return decide(of, at, false);
    focus();
    onConfirm(of, at);
    onNext(active);
  }

  function decide(of: ReadRow, at: GridColumn, accepted: boolean) {
    focus();
    if (!isPeeking) return setPeeking(true); // what is proposed must be seen first
    if (onDecide(of, at, accepted)) onNext(active);
  }

  function startEditing(of: ReadRow, at: GridColumn, text?: string) {
    setAnchor(null);
    setPeeking(false);
    setEditing({ row: of, column: at, ...(text !== undefined && { text }) });
  }

  /** Save the editor's text; return why it is not valid. `by`: where to go then. */
  function finish(text: string | null, by: { row: number; column: number } | 'next' | null): string | null {
    if (editing !== null && text !== null) {
      const problem = onEdit(editing.row, editing.column, text);
      if (problem !== null) return problem;
    } else if (editing !== null && by === 'next') onConfirm(editing.row, editing.column);
    setEditing(null);
    if (by !== null) focus();
    if (by === 'next') onNext(active);
    else if (by !== null) moveTo(active.row + by.row, active.column + by.column);
    return null;
  }

  function pointAt(event: PointerEvent, isStart: boolean) {
    const element = (event.target as HTMLElement).closest<HTMLElement>('[data-cell]');
    if (element === null || (event.target as HTMLElement).closest('input, select') !== null) return;
    const [atRow, atColumn] = element.dataset.cell!.split(' ').map(Number) as [number, number];
    if (isStart) {
      isDragging.current = event.button === 0 && atColumn >= FIRST && event.pointerType === 'mouse';
      if (atColumn === 0) return;
      setEditing(null);
      setAnchor(event.shiftKey ? (anchor ?? active) : null);
      setCursor({ row: atRow, column: atColumn, key: keyAt(atRow) });
    } else if (isDragging.current && (atRow !== active.row || atColumn !== active.column)) {
      setAnchor(anchor ?? active);
      setPeeking(false);
      setCursor({ row: atRow, column: Math.max(FIRST, atColumn), key: keyAt(atRow) });
    }
  }

  const width = across.getTotalSize();
  const selectedCount = selection.size;
  return (
    <div className={styles.frame}>
      <div
        ref={scroller}
        className={styles.grid}
        role="grid"
        aria-label={label}
        aria-rowcount={total + (foot.size > 0 ? 2 : 1)}
        aria-colcount={lastColumn + 1}
        aria-multiselectable="true"
        aria-busy={isPrevious}
        aria-activedescendant={cellId(active.row, active.column)}
        tabIndex={0}
        style={{ '--document-width': `${documentWidth}px` } as CSSProperties}
        onScroll={({ currentTarget }) =>
          Object.assign(position, { top: currentTarget.scrollTop, left: currentTarget.scrollLeft })
        }
        onFocus={() => {
          position.hasFocus = true;
        }}
        onBlur={({ relatedTarget }) => {
          position.hasFocus = relatedTarget === null;
        }}
        onKeyDown={(event) => {
          if (editing === null && press(event)) event.preventDefault();
        }}
        onCopy={(event) => editing === null && onCopy(range, event.nativeEvent)}
        onPaste={(event) => {
          if (editing !== null || !canWrite) return;
          event.preventDefault();
          onPaste(range, event.clipboardData.getData('text/plain'));
        }}
        onPointerDown={(event) => pointAt(event, true)}
        onPointerMove={(event) => isDragging.current && pointAt(event, false)}
        onPointerUp={() => {
          isDragging.current = false;
        }}>
        <div className={styles.head} role="row" aria-rowindex={1} style={{ width }}>
          <div
            className={`${styles.check} ${active.row < 0 && active.column === 0 ? styles.active : ''}`}
            role="columnheader"
            aria-colindex={1}
            id={cellId(-1, 0)}>
            <input
              type="checkbox"
              tabIndex={-1}
              aria-label={t('tables.selectAll')}
              checked={selectedCount > 0 && selectedCount >= Math.min(total, selection.limit)}
              ref={(element) => {
                if (element !== null)
                  element.indeterminate = selectedCount > 0 && selectedCount < Math.min(total, selection.limit);
              }}
              onChange={selection.toggleAll}
            />
          </div>
          <div
            className={`${styles.document} ${active.row < 0 && active.column === DOCUMENT ? styles.active : ''}`}
            role="columnheader"
            aria-colindex={2}
            id={cellId(-1, DOCUMENT)}>
            {t('tables.document')}
          </div>
          {shownColumns.map(({ index, start, size }) => {
            const one = columns[index]!;
            const isSorted = sort.path === one.path;
            return (
              <div
                key={one.path}
                id={cellId(-1, index + FIRST)}
                role="columnheader"
                aria-colindex={index + FIRST + 1}
                aria-sort={isSorted ? (sort.isDescending ? 'descending' : 'ascending') : 'none'}
                className={`${styles.header} ${one.type === 'number' ? styles.number : ''} ${active.row < 0 && active.column === index + FIRST ? styles.active : ''}`}
                style={{ left: start, width: size }}>
                <button
                  type="button"
                  tabIndex={-1}
                  className={styles.sort}
                  title={t('tables.sortBy', { column: one.label })}
                  onClick={() => onSort(one.path)}>
                  <span className="truncate">{one.label}</span>
                  {isSorted && <Icon name={sort.isDescending ? 'down' : 'up'} size={11} />}
                </button>
                <ResizeHandle width={size} onResize={(pixels) => resizeColumn(table, one.path, pixels)} />
              </div>
            );
          })}
          <div
            className={`${styles.status} ${active.row < 0 && active.column === lastColumn ? styles.active : ''}`}
            role="columnheader"
            aria-sort={sort.path === null ? 'ascending' : 'none'}
            aria-colindex={lastColumn + 1}
            id={cellId(-1, lastColumn)}>
            <button
              type="button"
              tabIndex={-1}
              className={styles.sort}
              title={t('tables.sortByStatus')}
              onClick={() => onSort(null)}>
              {t('tables.status')}
              {sort.path === null && <Icon name="up" size={11} />}
            </button>
          </div>
        </div>
        <div
          className={`${styles.body} ${isPrevious ? styles.previous : ''}`}
          role="rowgroup"
          style={{ height: rows.getTotalSize(), width }}>
          {shownRows.map(({ index, start }) => {
            const record = rowAt(index);
            const isActive = index === active.row;
            return (
              <GridRow
                key={record === undefined ? index : rowKey(record)}
                index={index}
                top={start - HEAD}
                record={record}
                columns={columns}
                shown={shownColumns}
                isSelected={record !== undefined && selection.has(record)}
                activeColumn={isActive ? active.column : -1}
                rangeLeft={anchor !== null && index >= range.top && index <= range.bottom ? range.left : -1}
                rangeRight={anchor !== null && index >= range.top && index <= range.bottom ? range.right : -1}
                editing={isActive ? editing : null}
                mixed={mixed}
                marks={marksAt(index)}
                onFinish={finish}
                onSelect={(isRange) => (isRange ? selection.extend(index, rowAt) : selection.toggle(index, rowAt))}
                onPeek={() => setPeeking(anchor === null)}
                onOpen={onOpen}
              />
            );
          })}
        </div>
        {foot.size > 0 && (
          <div className={styles.foot} role="row" aria-rowindex={total + 2} style={{ width }}>
            <div className={styles.check} role="gridcell" aria-colindex={1} />
            <div className={styles.document} role="gridcell" aria-colindex={2}>
              {t('tables.totals')}
            </div>
            {shownColumns.map(({ index, start, size }) => (
              <div
                key={index}
                className={`${styles.header} ${styles.number}`}
                role="gridcell"
                aria-colindex={index + FIRST + 1}
                style={{ left: start, width: size }}>
                {foot.get(columns[index]!.path)}
              </div>
            ))}
            <div className={styles.status} role="gridcell" aria-colindex={lastColumn + 1} />
          </div>
        )}
      </div>
      {isPeeking && row !== undefined && column !== undefined && (
        <CellPopover
          key={`${active.row} ${active.column}`}
          anchor={() => document.getElementById(cellId(active.row, active.column))}
          grid={scroller}
          row={row}
          column={column}
          cell={cell}
          outlier={cell === undefined ? undefined : marksAt(active.row)?.outliers.get(cell.path)}
          canWrite={canWrite}
          onClose={() => {
            setPeeking(false);
            focus();
          }}
          onEdit={() => startEditing(row, column)}
          onConfirm={() => confirm(row, column)}
          onAccept={() => decide(row, column, true)}
          onBlank={() => {
            focus();
            onEdit(row, column, '');
            onNext(active);
          }}
          onOpen={() => onOpen(row, cell, column)}
        />
      )}
      {isPeeking && shownRow !== undefined && problem !== undefined && (
        <RowPopover
          key={active.row}
          anchor={() => document.getElementById(cellId(active.row, active.column))}
          grid={scroller}
          text={problem}
          onReadAgain={
            onReadAgain !== undefined && canWrite && canReadAgain(shownRow)
              ? () => {
                  setPeeking(false);
                  focus();
                  onReadAgain(shownRow);
                }
              : undefined
          }
          onClose={() => {
            setPeeking(false);
            focus();
          }}
          onOpen={() => onOpen(shownRow, undefined, undefined)}
        />
      )}
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

function rangeOf(anchor: Cursor | null, active: Cursor): CellRange {
  const from = anchor ?? active;
  return {
    top: Math.max(0, Math.min(from.row, active.row)),
    bottom: Math.max(from.row, active.row),
    left: Math.min(from.column, active.column),
    right: Math.max(from.column, active.column),
  };
}

function withActive(range: Range, active: number): number[] {
  const shown = defaultRangeExtractor(range);
  return active < 0 || active >= range.count || shown.includes(active)
    ? shown
    : [...shown, active].sort((a, b) => a - b);
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
