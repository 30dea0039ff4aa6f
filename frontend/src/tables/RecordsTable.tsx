/** The rows of a table with its tools: views, filter, columns, the grid, the page beside it, and the bar of selected rows. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { RefreshCw } from 'lucide-react';
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { ReadRow, RecordRow, RecordsPage } from '../api/types';
import { Button } from '../components/ui/Button';
import { EmptyState } from '../components/ui/EmptyState';
import { LoadingRows } from '../components/ui/Loading';
import { ErrorNotice, errorMessage } from '../components/ui/Notice';
import { Tabs } from '../components/ui/Tabs';
import { toast } from '../components/ui/Toast';
import { statusLabel } from '../fields/fieldStatus';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { usePersisted } from '../shared/persisted';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { cellStatus, isRead, needsLook, type ReadableAgain } from './cellStatus';
import { columnDecimals, displayCell, ownCurrency, parseCell } from './cellValue';
import { ColumnMenu } from './ColumnMenu';
import { ColumnsMenu } from './ColumnsMenu';
import { currencyText, sumText, type Totals, totalsByColumn } from './ColumnTotals';
import { FilterButton, FilterChips } from './Filters';
import { Grid } from './Grid';
import { CHECK_WIDTH, type Cursor, type GridHandle, STATUS_WIDTH } from './grid';
import {
  cellPath,
  changeLayout,
  type ColumnMeasure,
  columnLabel,
  FIRST,
  type GridColumn,
  gridColumns,
  layoutOf,
  layouts,
  SIGN,
} from './gridColumns';
import { rememberSearch } from '../records/gridPosition';
import { groupKey } from './groupLines';
import { RowList } from './RowList';
import { PagePane, pane } from './PagePane';
import { readAgain } from './readAgain';
import { SelectionBar } from './SelectionBar';
import {
  firstRowsQuery,
  groupsQuery,
  PAGE,
  rowKey,
  sortAgain,
  tableKey,
  type TableRequest,
  totalsQuery,
} from '../records/tableQueries';
import { nextSort, type TableView } from '../records/tableView';
import { useCellEdits } from './useCellEdits';
import { useClipboard } from './useClipboard';
import { useSelection } from './useSelection';
import { useTableRows } from './useTableRows';
import { ViewTabs } from './ViewTabs';
import { refresh, type QueryKey } from '../api/queryKeys';

const MAX_PAGES_SEARCHED = 20;
const REVIEW = { id: 'table.review', keys: 'r' } as const;
const UNDO = { id: 'table.undo', keys: 'Mod+z' } as const;
const PHONE = 640; // pixels, as the breakpoint `sm`
const WIDE = 704; // pixels, as in Grid.module.css
const BESIDE = 1280; // pixels: the page has room beside the table
const SCROLLBAR = 16; // pixels

interface Props {
  request: TableRequest;
  view: TableView;
  /** Its rows can be read again, and taken out. */
  stackId: string | null;
  schemaId: string | null;
  label: string;
  onView: (change: (view: TableView) => TableView) => void;
  /** Increases with each request to review the table from its first doubtful value. */
  reviews: number;
  /** Shown if the table has no rows. */
  empty?: ReactNode;
  /** Between the tools and the rows: what is being read. */
  children?: ReactNode;
}

export function RecordsTable({ request, view, stackId, schemaId, label, onView, reviews, empty, children }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const canWrite = useCanWrite();
  const grid = useRef<GridHandle>(null);
  const [focuses, setFocuses] = useState(0);
  const focusAnswer = () => setFocuses((before) => before + 1);
  const focus = () => grid.current?.focus();
  const [shown, setShown] = useState({ from: 0, to: PAGE / 2 });
  const onRange = useCallback((from: number, to: number) => setShown({ from, to }), []);
  const [active, setActive] = useState<Cursor>({ row: 0, column: 1 });
  // First the rows, then the totals, then the marks.
  const [isLoaded, setLoaded] = useState(false);
  const totals = useQuery({ ...totalsQuery(request), enabled: isLoaded });
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const rows = useTableRows(request, shown.from, shown.to, !totals.isPending, closed);
  const isGrouped = request.group !== undefined && !rows.isPrevious;
  const ofGroups = useQuery({ ...groupsQuery(request), enabled: isGrouped && isLoaded }).data;
  const groups = useMemo(
    () => (isGrouped ? new Map(ofGroups?.map((one) => [groupKey(one), one])) : undefined),
    [isGrouped, ofGroups],
  );
  if (!isLoaded && rows.first !== undefined) setLoaded(true);
  const edits = useCellEdits();
  const selection = useSelection(
    () => queries.fetchQuery(firstRowsQuery(request)),
    (row) => rows.rowAt(rows.indexOf(rowKey(row)) ?? -1) ?? row,
  );
  const table = tableKey(request);
  const { readingFirst: _, ...ofRows } = request;
  const rowsKey = JSON.stringify(ofRows);
  const { clear: clearSelection } = selection;
  // Rows that are no longer shown must not be changed, and are loaded again when they are shown.
  const shownRequest = useRef(request);
  useEffect(() => {
    clearSelection();
    const before = shownRequest.current;
    shownRequest.current = request;
    if (before !== request)
      for (const rows of ['rows', 'headers'])
        queries.removeQueries({ queryKey: ['records', rows, before], type: 'inactive' });
  }, [rowsKey, clearSelection]);
  useEffect(() => setClosed(new Set()), [request.group]);
  const layout = layoutOf(usePersisted(layouts), table);
  const hidden = view.hidden ?? layout.hidden;
  const setHidden = (paths: readonly string[]) =>
    view.hidden === undefined && view.view === undefined
      ? changeLayout(table, { hidden: paths })
      : onView((before) => ({ ...before, hidden: paths }));
  const width = useWidth();
  const { isOpen, width: paneWidth } = usePersisted(pane);
  const isPaneOpen = isOpen ?? width >= BESIDE;
  const showPane = (is: boolean) => pane.set({ ...pane.get(), isOpen: is });
  const isPhone = width < PHONE;
  const isWide = width > WIDE;
  const all = rows.first?.columns;
  const isBeside = isPaneOpen && width >= BESIDE;
  // Beside the page, which has the name of the file, a row is called by its first text.
  const isNameless = isBeside && all?.some(({ path, type }) => type === 'text' && !hidden.includes(path)) === true;
  const documentWidth = isNameless ? 40 : isWide && !isPaneOpen ? 220 : 132;
  const sums = totals.data;
  const foot: Totals = useMemo(() => totalsByColumn(sums ?? []), [sums]);
  // As in the first rows: columns don't change their width while one works, but do while the first rows are being read.
  const [measured, setMeasured] = useState<{
    rows: number;
    hasSums: boolean;
    columns: ReadonlyMap<string, ColumnMeasure>;
  }>();
  const readRows =
    rows.first?.items.filter(({ cells }) => Object.values(cells).some(({ value }) => value !== null)).length ?? 0;
  const hasSums = sums !== undefined;
  const isMeasured = measured !== undefined && readRows <= 2 * measured.rows && measured.hasSums === hasSums;
  if (rows.first !== undefined && !isMeasured)
    setMeasured({ rows: readRows, hasSums, columns: measureColumns(rows.first, foot, isGrouped) });
  const frame = useRef<HTMLDivElement>(null);
  const besideWidth = isBeside ? paneWidth : 0;
  const columns = useMemo(() => {
    // The fields of line items come before those of their documents.
    const visible = (all ?? [])
      .filter(({ path }) => !hidden.includes(path))
      .toSorted((a, b) => Number(b.path.includes('[]')) - Number(a.path.includes('[]')));
    const room = (frame.current?.clientWidth ?? width) - besideWidth;
    const left = room - CHECK_WIDTH - documentWidth - STATUS_WIDTH - SCROLLBAR;
    return gridColumns(visible, layout, measured?.columns ?? new Map(), left, request.list);
  }, [all, hidden, layout, measured, width, besideWidth, documentWidth, request.list]);
  // What is searched while rows are loaded again, perhaps in another order.
  const latest = useRef({ rows, columns });
  latest.current = { rows, columns };
  const clipboard = useClipboard({ columns, rows, selection, edits, canWrite, focus });
  const [menu, setMenu] = useState<string | null>(null);
  const [filtering, setFiltering] = useState<string | null>(null);

  // Beside the header of a group, the page of the last row stays.
  const lastRow = useRef<RecordRow>(undefined);
  const activeRow = active.row >= 0 ? rows.rowAt(active.row) : undefined;
  if (rows.groupAt(active.row) === undefined) lastRow.current = activeRow;
  const shownRow = lastRow.current;
  const column = columns[active.column - FIRST];
  // Beside the document's own cell: its first question.
  const asked = column ?? columns.find(({ path }) => needsLook(shownRow?.cells[path]));
  const isFocusBeside = () => document.activeElement?.closest('[data-pane]') !== null;

  /** Rows that were read since they were loaded have other values that need a look. */
  async function loadAgain() {
    const queryKey: QueryKey = ['records', 'rows'];
    queries.removeQueries({ queryKey, type: 'inactive' });
    await refresh(queries, queryKey);
  }
  async function goToNext(at: Cursor, by: 1 | -1 = 1) {
    const wasBeside = isFocusBeside();
    const find = () => (by > 0 ? findNext(at) : findPrevious(at));
    const next = (await find()) ?? (await loadAgain().then(find));
    show(next);
    // The focus follows the question, and is not lost with the answered one.
    if (wasBeside) (next === null ? focus : focusAnswer)();
  }
  /** Go to the first value that needs a look, with the question beside it. */
  async function review(only?: string) {
    showPane(true);
    setClosed(new Set());
    await loadAgain();
    const next = await findNext({ row: -1, column: 0 }, only);
    show(next);
    (next === null ? focus : focusAnswer)();
  }
  function show(next: Cursor | null) {
    if (next === null) toast(t('tables.noneLeft'));
    else grid.current?.show(next);
  }
  const hasRows = rows.first !== undefined;
  useShortcut(REVIEW, () => void review(), hasRows);
  useShortcut(UNDO, edits.undo, edits.canUndo);
  const reviewsDone = useRef(0);
  useEffect(() => {
    if (!hasRows || reviews === reviewsDone.current) return;
    reviewsDone.current = reviews;
    void review();
  }, [reviews, hasRows]);

  if (rows.first === undefined) {
    return rows.error === null ? (
      <div className="min-w-0 flex-1">
        <div className="h-10 border-b border-border" />
        <LoadingRows height={34} />
      </div>
    ) : (
      <div className="p-4">
        <ErrorNotice error={rows.error} onRetry={rows.retry} />
        <Button onClick={() => onView(({ list }) => (list === undefined ? {} : { list }))}>
          {t('documents.clearFilters')}
        </Button>
      </div>
    );
  }

  /** After the last one, search from the first row on: some may have been passed over. */
  async function findNext(at: Cursor, only?: string): Promise<Cursor | null> {
    const isAfter = (row: number, of: number) => row > at.row || of > at.column;
    const next = await findIn(Math.max(0, at.row), latest.current.rows.lines, isAfter, only);
    if (next !== null) return next;
    await edits.settled(); // else a value that is being confirmed is found again
    return findIn(
      0,
      Math.min(latest.current.rows.lines, at.row + 1),
      (row, of) => row < at.row || of < at.column,
      only,
    );
  }
  async function findIn(
    first: number,
    rowsEnd: number,
    isWanted: (row: number, column: number) => boolean,
    only?: string,
  ): Promise<Cursor | null> {
    const end = Math.min(rowsEnd, first + MAX_PAGES_SEARCHED * PAGE);
    for (let start = first; start < end; start = (Math.floor(start / PAGE) + 1) * PAGE) {
      const ofPage = await latest.current.rows.load(start, Math.min(end, (Math.floor(start / PAGE) + 1) * PAGE) - 1);
      for (const { line, row } of ofPage) {
        const found = latest.current.columns.findIndex(
          ({ path }, of) =>
            (only === undefined || path === only) && isWanted(line, of + FIRST) && needsLook(row.cells[path]),
        );
        if (found >= 0) return { row: line, column: found + FIRST };
      }
    }
    return null;
  }
  /** Among the rows that are loaded. */
  async function findPrevious(at: Cursor): Promise<Cursor | null> {
    for (let row = Math.max(0, at.row); row >= 0; row -= 1) {
      const cells = latest.current.rows.rowAt(row)?.cells;
      const last = row === at.row ? at.column - FIRST - 1 : latest.current.columns.length - 1;
      for (let of = last; of >= 0; of -= 1)
        if (needsLook(cells?.[latest.current.columns[of]?.path ?? ''])) return { row, column: of + FIRST };
    }
    return null;
  }

  function edit(row: ReadRow, of: GridColumn, text: string): string | null {
    const parsed = parseCell(text, of.type);
    if ('problem' in parsed) return t(`tables.problems.${parsed.problem}`);
    void edits.write({ row, column: of, value: parsed.value });
    return null;
  }
  /** Say so if a decided cell still needs review: the next one is shown meanwhile. */
  async function warnIfOpen(row: ReadRow, of: GridColumn, isSaved: Promise<boolean>) {
    if (!(await isSaved)) return;
    const reason = edits.stillToReview({ row, column: of });
    if (reason !== undefined)
      toast(t('tables.stillToReview', { name: visibleText(row.filename), field: of.label, reason }), {
        seconds: 12,
        urgent: true,
      });
  }
  const confirm = (row: ReadRow, of: GridColumn) =>
    row.cells[of.path]?.value != null && void warnIfOpen(row, of, edits.confirm({ row, column: of }));

  function open(row: RecordRow, of: GridColumn | undefined) {
    const field = of && { field: row.cells[of.path]?.path ?? cellPath(of.path, row.path) };
    const search = row.extraction_id === null ? {} : { extraction: row.extraction_id, ...field };
    const params = { documentId: row.document_id };
    rememberSearch(request.table, view);
    void navigate({ to: '/documents/$documentId', params, search: { ...search, table: request.table } });
  }
  /** Start a run that reads a row again. */
  async function readRowAgain(row: ReadableAgain) {
    focus();
    try {
      await readAgain(row);
      toast(t('tables.rowsReadAgain', { count: 1 }));
    } catch (error) {
      toast(errorMessage(error), { urgent: true });
    }
    void refresh(queries, 'stacks', 'records');
  }

  const isFiltered = request.filter !== undefined || request.cells !== undefined || request.state !== undefined;
  const menuIndex = columns.findIndex(({ path }) => path === menu);
  const { lists, required } = rows.first;
  return (
    <div className="relative flex min-h-0 min-w-0 flex-1 flex-col max-sm:min-h-fit" ref={frame}>
      <div className="flex h-10 shrink-0 items-center gap-1 border-b border-border px-2">
        <ViewTabs table={request.table} view={view} onView={(next) => onView(() => next)} />
        <span className="flex-1" />
        {lists.length > 0 && stackId === null && (
          <Tabs
            kind="segments"
            label={t('tables.rows')}
            value={request.list ?? ''}
            tabs={['', ...lists].map((list) => ({
              value: list,
              label: list === '' ? t('tables.documents') : columnLabel({ path: list, title: null, type: 'text' }),
            }))}
            onChange={(list) => onView(() => (list === '' ? {} : { list }))}
          />
        )}
        {rows.changed > 0 && (
          <Button
            kind="quiet"
            icon={RefreshCw}
            onClick={() => {
              void sortAgain(queries);
              focus(); // the button goes
            }}>
            <span className="max-sm:sr-only">{t('tables.sortAgain', { count: rows.changed })}</span>
          </Button>
        )}
        {edits.canUndo && (
          <Button
            kind="quiet"
            onClick={() => {
              edits.undo();
              focus(); // it may have been the last one: the button goes
            }}>
            {t('common.undo')}
          </Button>
        )}
        <FilterButton
          columns={rows.first.columns}
          list={request.list}
          filter={request.filter ?? []}
          start={filtering}
          onStart={setFiltering}
          onFilter={(filter) => onView((before) => ({ ...before, filter }))}
        />
        <ColumnsMenu
          table={table}
          columns={rows.first.columns}
          list={request.list}
          hidden={hidden}
          onHide={setHidden}
        />
      </div>
      <FilterChips
        columns={rows.first.columns}
        view={view}
        onView={onView}
        hasClosed={closed.size > 0}
        onToggleGroups={() => setClosed(closed.size > 0 ? new Set() : new Set(['', ...(groups?.keys() ?? [])]))}
      />
      {children}
      {clipboard.progress !== null && (
        <p role="status" className="border-b border-border px-4 py-1.5 text-muted-foreground">
          {clipboard.progress}
        </p>
      )}
      {rows.error !== null && <ErrorNotice error={rows.error} onRetry={rows.retry} />}
      {rows.total === 0 && !isFiltered && empty !== undefined ? (
        empty
      ) : rows.total === 0 ? (
        <EmptyState
          title={t(isFiltered ? 'documents.noMatches' : 'tables.emptyTable')}
          {...(!isFiltered && { text: t('tables.emptyHint') })}>
          {isFiltered && (
            <Button onClick={() => onView(({ list }) => (list === undefined ? {} : { list }))}>
              {t('documents.clearFilters')}
            </Button>
          )}
        </EmptyState>
      ) : (
        <div className="flex min-h-0 flex-1 max-sm:min-h-80">
          <div className="min-w-0 flex-1">
            {isPhone && groups === undefined ? (
              <RowList
                ref={grid}
                label={label}
                columns={columns}
                total={rows.total}
                isPrevious={rows.isPrevious}
                rowAt={rows.rowAt}
                selection={selection}
                canWrite={canWrite}
                totals={foot}
                chosen={isPaneOpen ? active.row : -1}
                onActive={setActive}
                onPane={showPane}
                onRange={onRange}
              />
            ) : (
              <Grid
                ref={grid}
                table={table}
                view={rowsKey}
                label={label}
                documentWidth={documentWidth}
                isNameless={isNameless}
                isStatusFixed={isWide}
                columns={columns}
                required={required}
                total={rows.total}
                lines={rows.lines}
                groups={groups}
                groupAt={rows.groupAt}
                isPrevious={rows.isPrevious}
                rowAt={rows.rowAt}
                marksAt={rows.marksAt}
                indexOf={rows.indexOf}
                sort={{
                  path: request.byStatus === true ? null : request.sort,
                  isDescending: request.descending === true,
                }}
                selection={selection}
                canWrite={canWrite}
                totals={foot}
                isPaneOpen={isPaneOpen}
                onActive={setActive}
                onPane={showPane}
                onAnswer={focusAnswer}
                onMenu={({ path }) => setMenu(path)}
                onRange={onRange}
                onSort={(path) => onView((before) => nextSort(before, path))}
                onToggleGroup={(key) =>
                  setClosed((before) =>
                    before.has(key) ? new Set([...before].filter((one) => one !== key)) : new Set([...before, key]),
                  )
                }
                onOpen={(row, _cell, of) => open(row, of)}
                onEdit={edit}
                onConfirm={confirm}
                onDecide={(row, of, accepted) => {
                  const isSaved = edits.decide({ row, column: of }, accepted);
                  if (isSaved !== undefined) void warnIfOpen(row, of, isSaved);
                  return isSaved !== undefined;
                }}
                onConfirmRange={(range) => void clipboard.confirm(range)}
                onNext={(at) => void goToNext(at)}
                onClear={(range) => void clipboard.clear(range)}
                onCopy={clipboard.copy}
                onPaste={clipboard.paste}
                onUndo={edits.undo}
              />
            )}
          </div>
          {isPaneOpen && shownRow !== undefined && (
            <PagePane
              focuses={focuses}
              row={shownRow}
              column={asked}
              outlier={asked && rows.marksAt(active.row)?.outliers.get(shownRow.cells[asked.path]?.path ?? '')}
              canWrite={canWrite}
              decisions={edits.decisionsOf(shownRow)}
              onDecided={(row, of, isSaved) => {
                void warnIfOpen(row, of, isSaved);
                void goToNext(active);
              }}
              onConfirm={(row, of) => {
                confirm(row, of);
                void goToNext(active);
              }}
              onEdit={(row, of, text) => {
                const problem = edit(row, of, text);
                if (problem !== null) toast(t('tables.notSaved', { reason: problem }), { urgent: true });
              }}
              onMove={(by) => void goToNext(active, by)}
              onOpen={() => open(shownRow, asked)}
              onReadAgain={
                stackId === null ? undefined : () => isRead(shownRow) && void readRowAgain(shownRow as ReadableAgain)
              }
              onClose={() => {
                showPane(false);
                focus();
              }}
              onLeave={focus}
            />
          )}
        </div>
      )}
      {menu !== null && menuIndex >= 0 && (
        <ColumnMenu
          column={columns[menuIndex]!}
          index={menuIndex + FIRST}
          request={request}
          schemaId={schemaId}
          required={required}
          decimals={layout.decimals}
          canWrite={canWrite}
          onClose={() => {
            setMenu(null);
            focus();
          }}
          onReview={() => void review(menu)}
          onGroup={(group) =>
            onView(({ group: _, ...others }) => (group === undefined ? others : { ...others, group }))
          }
          onSort={(change) =>
            onView(({ sort: _sort, descending: _descending, byStatus: _status, ...others }) => ({
              ...others,
              ...change,
            }))
          }
          onFilter={() => setFiltering(menu)}
          onHide={() => setHidden([...hidden, menu])}
        />
      )}
      {clipboard.dialogs}
      <SelectionBar
        selection={selection}
        columns={rows.first.columns}
        request={request}
        stackId={stackId}
        name={label}
        beside={besideWidth}
        above={foot.currencies.length}
        onDone={focus}
      />
    </div>
  );
}

/** `isGrouped`: the sums of groups have their currency beside them. */
function measureColumns(
  page: RecordsPage,
  { byColumn, mixed }: Totals,
  isGrouped: boolean,
): Map<string, ColumnMeasure> {
  const places = columnDecimals(page);
  const context = document.createElement('canvas').getContext('2d');
  if (context !== null) context.font = `500 13px ${getComputedStyle(document.body).fontFamily}`;
  // The digits of numbers are as wide as a zero.
  const widthOf = (text: string) => 2 + (context?.measureText(text).width ?? text.length * 7.2);
  const numberWidth = (text: string) => widthOf(text.replace(/\d/g, '0'));
  const measures = page.columns.map(({ path, type }) => {
    const decimals = places.get(path) ?? 0;
    const texts = page.items.map((row) => {
      const cell = row.cells[path];
      if (cell?.value == null) return needsLook(cell) ? statusLabel(cellStatus(cell)) : '';
      const currency = mixed.has(path) ? ownCurrency(row, cell, page.columns) : null;
      return `${currency === null ? '' : `${currency} `}${displayCell(cell, { type, decimals })}`;
    });
    const totals = byColumn.get(path) ?? [];
    const sums = totals.map(
      (one) => `${sumText(one, decimals)}${isGrouped ? ` ${currencyText(one.currency, true)}` : ''}`,
    );
    const missing = page.total - totals.reduce((sum, { count }) => sum + count, 0);
    if (totals.length > 0 && missing > 0) sums.push(t('tables.without', { count: missing }));
    const widths = texts.map(type === 'number' ? numberWidth : widthOf);
    const width = Math.max(0, ...widths, ...sums.map((sum) => numberWidth(sum) - SIGN));
    return [path, { width, decimals }] as const;
  });
  return new Map(measures);
}

/** The width of the window, in pixels. */
function useWidth(): number {
  return useSyncExternalStore(
    (listener) => {
      addEventListener('resize', listener);
      return () => removeEventListener('resize', listener);
    },
    () => innerWidth,
  );
}
