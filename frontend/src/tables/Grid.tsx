/** A table of records as a grid: virtual rows and columns, one active cell, ranges, and rows to select. Cells come and go
 * while it is scrolled: the grid itself keeps the focus. */

import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual';
import { type CSSProperties, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import type { ReadRow, RecordCell, RecordRow, TableGroup } from '../api/types';
import { toast } from '../components/ui/Toast';
import { t } from '../shared/i18n';
import { isRead, needsLook } from './cellStatus';
import type { Totals } from './ColumnTotals';
import styles from './Grid.module.css';
import {
  cellId,
  type CellRange,
  CHECK_WIDTH,
  type Cursor,
  type Editing,
  type GridHandle,
  HEAD,
  type Leaving,
  ROW,
  STATUS_WIDTH,
  SUM,
} from './grid';
import { FIRST, type GridColumn, MIN_WIDTH, resizeColumn } from './gridColumns';
import { GridFoot } from './GridFoot';
import { GridHead } from './GridHead';
import { pressKey } from './gridKeyboard';
import { GridRow } from './GridRow';
import type { RowGroup } from './groupLines';
import { GroupRow, sumLines } from './GroupRow';
import type { RowMarks } from '../records/rowMarks';
import { useGridCursor } from './useGridCursor';
import { useGridPointer } from './useGridPointer';
import { rowKey } from '../records/tableQueries';
import type { Selection } from './useSelection';

export interface GridProps {
  ref: Ref<GridHandle>;
  /** Identifies the table, and its filter and order, for the layout and the scroll position. */
  table: string;
  view: string;
  label: string;
  /** Pixels of the column of documents. */
  documentWidth: number;
  /** The first column has no room for the names of documents. */
  isNameless: boolean;
  /** The status stays in view when the columns are scrolled. */
  isStatusFixed: boolean;
  columns: readonly GridColumn[];
  required: readonly string[];
  /** The number of rows, and of lines with the headers of groups. */
  total: number;
  lines: number;
  /** The groups as they are now, by their keys; undefined: the rows are not grouped. */
  groups: ReadonlyMap<string, TableGroup> | undefined;
  isPrevious: boolean;
  rowAt: (index: number) => RecordRow | undefined;
  groupAt: (index: number) => RowGroup | undefined;
  marksAt: (index: number) => RowMarks | undefined;
  indexOf: (key: string) => number | undefined;
  /** By the column with this path, or by the status of the rows (null). */
  sort: { path: string | null | undefined; isDescending: boolean };
  selection: Selection;
  canWrite: boolean;
  totals: Totals;
  isPaneOpen: boolean;
  /** The active cell, once it is another one. */
  onActive: (at: Cursor) => void;
  onPane: (is: boolean) => void;
  /** Give the focus to the question beside the table. */
  onAnswer: () => void;
  onMenu: (column: GridColumn) => void;
  onRange: (from: number, to: number) => void;
  onSort: (path: string | null) => void;
  onToggleGroup: (key: string) => void;
  onOpen: (row: RecordRow, cell: RecordCell | undefined, column: GridColumn | undefined) => void;
  /** Save typed text. Return why it is not valid; null if it is. */
  onEdit: (row: ReadRow, column: GridColumn, text: string) => string | null;
  onConfirm: (row: ReadRow, column: GridColumn) => void;
  /** Accept or reject what is proposed for the cell. Return false if the proposal was not shown. */
  onDecide: (row: ReadRow, column: GridColumn, accepted: boolean) => boolean;
  onConfirmRange: (range: CellRange) => void;
  /** Go to the next cell that needs a look. */
  onNext: (at: Cursor) => void;
  onClear: (range: CellRange) => void;
  onCopy: (range: CellRange, event: ClipboardEvent) => void;
  onPaste: (range: CellRange, text: string) => void;
  onUndo: () => void;
}

const DOUBLE_CLICK_MS = 300;

export function Grid(props: GridProps) {
  const { ref, table, documentWidth, isStatusFixed, columns, total, isPrevious, rowAt, selection } = props;
  const { canWrite, totals, isPaneOpen, onActive, onPane, onRange, onNext, lines, groupAt, groups } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const cursor = useGridCursor({ ...props, total: lines, scroller, columns: columns.length });
  const { position, active, anchor, range, lastColumn } = cursor;
  const [opened, setEditing] = useState<Editing | null>(null);
  const peeking = useRef<ReturnType<typeof setTimeout>>(undefined);
  const left = CHECK_WIDTH + documentWidth;
  const focus = () => scroller.current?.focus({ preventScroll: true });

  useEffect(() => {
    // Back from a document that was opened here.
    if (position.hasFocus && document.activeElement === document.body) focus();
  }, []);
  useEffect(() => () => clearTimeout(peeking.current), []);
  useEffect(() => onActive(active), [active.row, active.column, onActive]);

  const rows = useVirtualizer({
    count: lines,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => heightOf(groupAt(index), groups),
    overscan: 8,
    scrollMargin: HEAD,
    scrollPaddingStart: HEAD,
    scrollPaddingEnd: totals.currencies.length > 0 ? HEAD * 2 : 0,
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
  useLayoutEffect(() => rows.measure(), [rows, groupAt, groups]);
  useEffect(() => {
    scroller.current?.scrollTo({ top: position.top });
  }, [position]);
  const first = rows.range?.startIndex ?? 0;
  const last = rows.range?.endIndex ?? 0;
  useEffect(() => onRange(Math.max(0, first - 8), last + 8), [first, last, onRange]);

  function moveTo(row: number, column: number, extend = false) {
    setEditing(null);
    cursor.place({ row, column }, extend);
    if (row >= 0) rows.scrollToIndex(Math.min(row, lines - 1), { align: 'auto' });
    const at = column - FIRST;
    // Of a column that is wider than the room between the fixed ones, its start is shown.
    const room = (scroller.current?.clientWidth ?? 0) - left - (isStatusFixed ? STATUS_WIDTH : 0);
    if (at >= 0 && at < columns.length)
      across.scrollToIndex(at, { align: columns[at]!.width > room ? 'start' : 'auto' });
    else document.getElementById(cellId(-1, column))?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  useImperativeHandle(ref, () => ({ focus, show: (cell) => moveTo(cell.row, cell.column) }));

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

  function decide(accepted: boolean) {
    focus();
    if (!isPaneOpen) return onPane(true); // what is proposed must be seen first
    if (props.onDecide(row!, column!, accepted)) onNext(active);
  }
  function edit(text?: string) {
    cursor.clearRange();
    setEditing({ row: row!, column: column!, ...(text !== undefined && { text }) });
  }
  /** Save the editor's text; return why it is not valid. */
  function finish(text: string | null, by: Leaving): string | null {
    if (editing !== null && text !== null) {
      const problem = props.onEdit(editing.row, editing.column, text);
      if (problem !== null) return problem;
    } else if (editing !== null && by === 'next') props.onConfirm(editing.row, editing.column);
    setEditing(null);
    if (by !== null) focus();
    if (by === 'next') onNext(active);
    else if (by !== null) moveTo(active.row + by.row, active.column + by.column);
    return null;
  }
  const actions = {
    active,
    hasRange: anchor !== null,
    hasSelection: selection.size > 0,
    total: lines,
    lastColumn,
    pageRows: Math.max(1, Math.floor(((scroller.current?.clientHeight ?? 0) - 2 * HEAD) / ROW) - 1),
    group: groupAt(active.row),
    row: shownRow,
    read: row,
    column,
    cell,
    canWrite,
    isPaneOpen,
    isAsked: isPaneOpen && needsLook(cell),
    moveTo,
    resize: (pixels: number) => column !== undefined && resizeColumn(table, column.path, pixels),
    clearRange: cursor.clearRange,
    clearSelection: selection.clear,
    select: (what: 'row' | 'all') => (what === 'all' ? selection.toggleAll() : selection.toggle(active.row, rowAt)),
    showPane: onPane,
    answer: props.onAnswer,
    openMenu: () => column !== undefined && props.onMenu(column),
    sort: () => (column !== undefined || active.column === lastColumn) && props.onSort(column?.path ?? null),
    edit,
    /** What is proposed in its place is rejected. */
    confirm: () => {
      if (cell?.reason === 'proposal') return decide(false);
      focus();
      props.onConfirm(row!, column!);
      onNext(active);
    },
    confirmRange: () => props.onConfirmRange(range),
    decide,
    next: () => onNext(active),
    clear: () => props.onClear(range),
    undo: props.onUndo,
    toggleGroup: (key: string) => props.onToggleGroup(key),
    open: () => shownRow !== undefined && props.onOpen(shownRow, cell, column),
  };
  /** Open the pane after a click that does not become a double-click: its cells would move between the two. */
  function peek() {
    clearTimeout(peeking.current);
    if (!isPaneOpen) peeking.current = setTimeout(() => onPane(true), DOUBLE_CLICK_MS);
  }
  const pointer = useGridPointer({ active, place: cursor.place, onPress: () => setEditing(null) });
  const shownColumns = across.getVirtualItems();
  const width = across.getTotalSize();
  const seen = (across.scrollOffset ?? 0) + (across.scrollRect?.width ?? width) - (isStatusFixed ? STATUS_WIDTH : 0);
  const more = across.measurementsCache.filter(({ end }) => end > seen + 2).length;
  return (
    <div
      ref={scroller}
      className={styles.grid}
      role={groups === undefined ? 'grid' : 'treegrid'}
      aria-label={props.label}
      aria-rowcount={lines + (totals.currencies.length > 0 ? 2 : 1)}
      aria-colcount={lastColumn + 1}
      aria-multiselectable="true"
      aria-busy={isPrevious}
      aria-activedescendant={cellId(active.row, active.column)}
      tabIndex={0}
      data-more={more > 0 || undefined}
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
        if (editing === null && event.target === event.currentTarget && pressKey(event, actions))
          event.preventDefault();
      }}
      onCopy={(event) => editing === null && props.onCopy(range, event.nativeEvent)}
      onPaste={(event) => {
        if (editing !== null || !canWrite) return;
        event.preventDefault();
        props.onPaste(range, event.clipboardData.getData('text/plain'));
      }}
      {...pointer}>
      <GridHead {...props} shown={shownColumns} width={width} active={active} more={more} />
      <div
        className={`${styles.body} ${isPrevious ? styles.previous : ''}`}
        role="rowgroup"
        style={{ height: rows.getTotalSize(), width }}>
        {rows.getVirtualItems().map(({ index, start, size }) => {
          const header = groupAt(index);
          if (header !== undefined)
            return (
              <GroupRow
                key={`group ${header.key}`}
                index={index}
                top={start - HEAD}
                height={size}
                header={header}
                now={groups?.get(header.key)}
                columns={columns}
                shown={shownColumns}
                activeColumn={index === active.row ? active.column : -1}
                onToggle={() => props.onToggleGroup(header.key)}
              />
            );
          const record = rowAt(index);
          const isActive = index === active.row;
          const isInRange = anchor !== null && index >= range.top && index <= range.bottom;
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
              rangeLeft={isInRange ? range.left : -1}
              rangeRight={isInRange ? range.right : -1}
              editing={isActive ? editing : null}
              mixed={totals.mixed}
              isNameless={props.isNameless}
              marks={props.marksAt(index)}
              onFinish={finish}
              onSelect={(isRange) => (isRange ? selection.extend(index, rowAt) : selection.toggle(index, rowAt))}
              onPeek={() => anchor === null && peek()}
              onOpen={(...at) => {
                clearTimeout(peeking.current);
                props.onOpen(...at);
              }}
            />
          );
        })}
      </div>
      {totals.currencies.length > 0 && (
        <GridFoot columns={columns} shown={shownColumns} width={width} totals={totals} total={total} row={lines + 2} />
      )}
    </div>
  );
}

function heightOf(header: RowGroup | undefined, groups: ReadonlyMap<string, TableGroup> | undefined): number {
  return header === undefined ? ROW : ROW + SUM * (sumLines(groups?.get(header.key)?.totals ?? []) - 1);
}

function withActive(range: Range, active: number): number[] {
  const shown = defaultRangeExtractor(range);
  return active < 0 || active >= range.count || shown.includes(active)
    ? shown
    : [...shown, active].sort((a, b) => a - b);
}
