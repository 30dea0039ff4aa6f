/** A table of records with its tools: filter, columns, line items, the grid, and what can be done with selected rows. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode } from 'react';
import type { ReadRow, RecordRow, RecordsPage } from '../api/types';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { toast } from '../components/ui/Toast';
import { Loading } from '../components/ui/Loading';
import { Button } from '../components/ui/Button';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice, errorMessage } from '../components/ui/Notice';
import { usePersisted } from '../shared/persisted';
import { CELL_STATUSES, needsLook, type CellFilter, type ReadableAgain } from './cellStatus';
import { columnDecimals, displayCell, parseCell } from './cellValue';
import { ColumnsMenu } from './ColumnsMenu';
import { ColumnTotals, totalsByColumn } from './ColumnTotals';
import { Filters } from './Filters';
import { CHECK_WIDTH, Grid, STATUS_WIDTH, type CellRange, type Cursor, type GridHandle } from './Grid';
import {
  cellPath,
  columnLabel,
  FIRST,
  gridColumns,
  layoutOf,
  layouts,
  type ColumnMeasure,
  type GridColumn,
} from './gridColumns';
import { readAgain } from './readAgain';
import { SelectionBar } from './SelectionBar';
import { firstRowsQuery, openRowsQuery, PAGE, tableKey, totalsQuery, type TableRequest } from './tableQueries';
import styles from './Tables.module.css';
import { nextSort, type TableView } from './tableView';
import { useCellEdits } from './useCellEdits';
import { useClipboard } from './useClipboard';
import { rowKey, useSelection } from './useSelection';
import { useTableRows } from './useTableRows';

const MAX_PAGES_SEARCHED = 20;
/** As a filter, in order of urgency. */
const FILTERS = ['to_review', ...CELL_STATUSES] as const satisfies readonly CellFilter[];

interface Props {
  request: TableRequest;
  label: string;
  onView: (change: (view: TableView) => TableView) => void;
  /** Shown if the table has no rows. */
  empty?: ReactNode;
}

export function RecordsTable({ request, label, onView, empty }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const canWrite = useCanWrite();
  const grid = useRef<GridHandle>(null);
  const focus = () => grid.current?.focus();
  const [shown, setShown] = useState({ from: 0, to: PAGE / 2 });
  const onRange = useCallback((from: number, to: number) => setShown({ from, to }), []);
  // First the rows, then the totals, then the marks.
  const [isLoaded, setLoaded] = useState(false);
  const totals = useQuery({ ...totalsQuery(request), enabled: isLoaded });
  const rows = useTableRows(request, shown.from, shown.to, !totals.isPending);
  const needYou = useQuery({ ...openRowsQuery(request), enabled: isLoaded }).data ?? 0;
  if (!isLoaded && rows.first !== undefined) setLoaded(true);
  const edits = useCellEdits();
  const selection = useSelection(
    () => queries.fetchQuery(firstRowsQuery(request)),
    (row) => rows.rowAt(rows.indexOf(rowKey(row)) ?? -1) ?? row,
  );
  const table = tableKey(request);
  const view = JSON.stringify(request);
  const { clear: clearSelection } = selection;
  // Rows that are no longer shown must not be changed.
  useEffect(() => clearSelection(), [view, clearSelection]);
  const layout = layoutOf(usePersisted(layouts), table);
  const width = useWindowWidth();
  const isWide = width > 704; // as in Grid.module.css
  const documentWidth = isWide ? 236 : 132;
  const all = rows.first?.columns;
  const sums = totals.data;
  const { foot, mixed } = useMemo(() => totalsByColumn(sums ?? []), [sums]);
  // As in the first rows: columns don't change their width while one works, but do while the first rows are being read.
  const [measured, setMeasured] = useState<{ rows: number; columns: ReadonlyMap<string, ColumnMeasure> }>();
  const readRows =
    rows.first?.items.filter(({ cells }) => Object.values(cells).some(({ value }) => value !== null)).length ?? 0;
  if (rows.first !== undefined && sums !== undefined && (measured === undefined || readRows > 2 * measured.rows)) {
    setMeasured({ rows: readRows, columns: measureColumns(rows.first, foot, mixed) });
  }
  const columns = useMemo(() => {
    // The fields of line items come before those of their documents.
    const visible = (all ?? [])
      .filter(({ path }) => !layout.hidden.includes(path))
      .toSorted((a, b) => Number(b.path.includes('[]')) - Number(a.path.includes('[]')));
    return gridColumns(
      visible,
      layout,
      measured?.columns ?? new Map(),
      width - CHECK_WIDTH - documentWidth - STATUS_WIDTH - SCROLLBAR,
      request.list,
    );
  }, [all, layout, measured, width, documentWidth, request.list]);
  const totalCells = useMemo(
    () => new Map([...foot].map(([path, texts]) => [path, <ColumnTotals key={path} texts={texts} />])),
    [foot],
  );
  const clipboard = useClipboard({ columns, rows, selection, edits, canWrite, focus });

  if (rows.first === undefined) {
    return rows.error === null ? (
      <Loading />
    ) : (
      <div className={styles.content}>
        <ErrorNotice error={rows.error} onRetry={rows.retry} />
        <Button onClick={() => onView(({ list }) => (list === undefined ? {} : { list }))}>
          {t('documents.clearFilters')}
        </Button>
      </div>
    );
  }

  async function goToNext(at: Cursor) {
    const next = await findNext(at);
    if (next === null) toast(t('tables.noneLeft'));
    grid.current?.show(next);
  }

  /** After the last one, search from the first row on: some may have been passed over. */
  async function findNext(at: Cursor): Promise<Cursor | null> {
    const next = await findIn(Math.max(0, at.row), rows.total, (row, column) => row > at.row || column > at.column);
    if (next !== null) return next;
    await edits.settled(); // else a value that is being confirmed is found again
    return findIn(0, Math.min(rows.total, at.row + 1), (row, column) => row < at.row || column < at.column);
  }

  async function findIn(
    first: number,
    rowsEnd: number,
    isWanted: (row: number, column: number) => boolean,
  ): Promise<Cursor | null> {
    const end = Math.min(rowsEnd, first + MAX_PAGES_SEARCHED * PAGE);
    for (let start = first; start < end; start = (Math.floor(start / PAGE) + 1) * PAGE) {
      const ofPage = await rows.load(start, Math.min(end, (Math.floor(start / PAGE) + 1) * PAGE) - 1);
      for (const [index, row] of ofPage.entries()) {
        const found = columns.findIndex(
          ({ path }, column) => isWanted(start + index, column + FIRST) && needsLook(row.cells[path]),
        );
        if (found >= 0) return { row: start + index, column: found + FIRST };
      }
    }
    return null;
  }

  function edit(row: ReadRow, column: GridColumn, text: string): string | null {
    const parsed = parseCell(text, column.type);
    if ('problem' in parsed) return t(`tables.problems.${parsed.problem}`);
    void edits.write({ row, column, value: parsed.value });
    return null;
  }

  /** Say so if a decided cell still needs review: the next one is shown meanwhile. */
  async function warnIfOpen(row: ReadRow, column: GridColumn, isSaved: Promise<boolean>) {
    if (!(await isSaved)) return;
    const reason = edits.stillToReview({ row, column });
    if (reason !== undefined)
      toast(t('tables.stillToReview', { name: visibleText(row.filename), field: column.label, reason }), {
        seconds: 12,
        urgent: true,
      });
  }

  function open(row: RecordRow, column: GridColumn | undefined) {
    const search =
      row.extraction_id === null
        ? {}
        : {
            extraction: row.extraction_id,
            ...(column !== undefined && { field: row.cells[column.path]?.path ?? cellPath(column.path, row.path) }),
          };
    void navigate({ to: '/documents/$documentId', params: { documentId: row.document_id }, search });
  }

  /** Start a run that reads a row again. */
  async function readRowAgain(row: ReadableAgain) {
    try {
      await readAgain(row);
      toast(t('tables.rowsReadAgain', { count: 1 }));
    } catch (error) {
      toast(errorMessage(error), { urgent: true });
    }
    for (const queryKey of [['stacks'], ['records']]) void queries.invalidateQueries({ queryKey });
  }

  async function clear(range: CellRange) {
    const cleared = columns.slice(Math.max(0, range.left - FIRST), Math.max(0, range.right - FIRST + 1));
    await clipboard.write(
      range.top,
      range.left,
      Array.from({ length: range.bottom - range.top + 1 }, () => cleared.map(() => '')),
    );
  }

  const isFiltered = request.filter !== undefined || request.cells !== undefined || request.state !== undefined;
  return (
    <div className={styles.table}>
      <div className={styles.tools}>
        <Filters
          columns={rows.first.columns}
          list={request.list}
          filter={request.filter ?? []}
          onFilter={(filter) =>
            onView(({ filter: _, ...others }) => (filter.length > 0 ? { ...others, filter } : others))
          }
        />
        <select
          className={styles.select}
          aria-label={t('tables.cells')}
          data-active={request.cells !== undefined}
          value={request.cells ?? ''}
          onChange={({ target }) =>
            onView(({ cells: _, ...others }) =>
              target.value === '' ? others : { ...others, cells: target.value as CellFilter },
            )
          }>
          <option value="">{t('tables.allCells')}</option>
          {FILTERS.map((status) => (
            <option key={status} value={status}>
              {t(status === 'to_review' ? 'tables.toReview' : `fields.statuses.${status}`)}
            </option>
          ))}
        </select>
        {rows.first.lists.length > 0 && !('stack' in request.of) && (
          <div className={styles.segments} role="group" aria-label={t('tables.rows')}>
            {[undefined, ...rows.first.lists].map((list) => (
              <button
                key={list ?? ''}
                type="button"
                aria-pressed={list === request.list}
                onClick={() => onView(() => (list === undefined ? {} : { list }))}>
                {list === undefined ? t('tables.documents') : columnLabel({ path: list, title: null, type: 'text' })}
              </button>
            ))}
          </div>
        )}
        <span className={styles.summary} role="status">
          {clipboard.progress ??
            t(request.list === undefined ? 'tables.records' : 'tables.items', { count: rows.total })}
        </span>
        {needYou > 0 && request.cells === undefined && (
          <Button kind="quiet" onClick={() => onView((view) => ({ ...view, cells: 'to_review' }))}>
            {t('tables.needYou', { count: needYou })}
          </Button>
        )}
        {edits.canUndo && (
          <Button
            onClick={() => {
              edits.undo();
              focus(); // it may have been the last one: the button goes
            }}>
            {t('common.undo')}
          </Button>
        )}
        <ColumnsMenu table={table} columns={rows.first.columns} list={request.list} hidden={layout.hidden} />
      </div>
      {rows.error !== null && <ErrorNotice error={rows.error} onRetry={rows.retry} />}
      {rows.total === 0 && !isFiltered && empty !== undefined ? (
        empty
      ) : rows.total === 0 ? (
        <EmptyState title={t(isFiltered ? 'documents.noMatches' : 'tables.empty')}>
          {isFiltered ? (
            <Button onClick={() => onView(({ filter: _, cells: __, state: ___, ...others }) => others)}>
              {t('documents.clearFilters')}
            </Button>
          ) : (
            <p>{t('tables.emptyHint')}</p>
          )}
        </EmptyState>
      ) : (
        <Grid
          ref={grid}
          table={table}
          view={view}
          label={label}
          documentWidth={documentWidth}
          isStatusFixed={isWide}
          columns={columns}
          total={rows.total}
          isPrevious={rows.isPrevious}
          rowAt={rows.rowAt}
          marksAt={rows.marksAt}
          indexOf={rows.indexOf}
          sort={{ path: request.byStatus === true ? null : request.sort, isDescending: request.descending === true }}
          selection={selection}
          canWrite={canWrite}
          mixed={mixed}
          foot={totalCells}
          onRange={onRange}
          onSort={(path) => onView((view) => nextSort(view, path))}
          onOpen={(row, _, column) => open(row, column)}
          onEdit={edit}
          onConfirm={(row, column) =>
            row.cells[column.path]?.value != null && void warnIfOpen(row, column, edits.confirm({ row, column }))
          }
          onDecide={(row, column, accepted) => {
            const isSaved = edits.decide({ row, column }, accepted);
            if (isSaved !== undefined) void warnIfOpen(row, column, isSaved);
            return isSaved !== undefined;
          }}
          onConfirmRange={(range) => void clipboard.confirm(range)}
          onNext={(at) => void goToNext(at)}
          onClear={(range) => void clear(range)}
          onCopy={clipboard.copy}
          onPaste={clipboard.paste}
          onUndo={edits.undo}
          onReadAgain={'stack' in request.of ? (row) => void readRowAgain(row) : undefined}
        />
      )}
      {clipboard.dialogs}
      <SelectionBar selection={selection} columns={rows.first.columns} request={request} name={label} onDone={focus} />
    </div>
  );
}

function measureColumns(
  page: RecordsPage,
  foot: ReadonlyMap<string, readonly string[]>,
  mixed: ReadonlySet<string>,
): Map<string, ColumnMeasure> {
  const places = columnDecimals(page);
  const measures = page.columns.map(({ path, type }) => {
    const decimals = places.get(path) ?? 0;
    const texts = page.items.map(({ cells }) => displayCell(cells[path], { type, decimals }));
    const more = mixed.has(path) ? 5 : 0; // a currency before each value
    const length = Math.max(
      0,
      ...texts.map((text) => text.length + more),
      mixed.has(path) ? 0 : (foot.get(path)?.[0]?.length ?? 0),
    );
    return [path, { length, decimals }] as const;
  });
  return new Map(measures);
}

const SCROLLBAR = 16; // pixels

function useWindowWidth(): number {
  return useSyncExternalStore(
    (listener) => {
      addEventListener('resize', listener);
      return () => removeEventListener('resize', listener);
    },
    () => innerWidth,
  );
}
