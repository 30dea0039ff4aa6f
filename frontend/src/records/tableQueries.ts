/** Queries for tables: the list of tables, pages of rows, and totals. */

import { type QueryClient, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { QueryKey } from '../api/queryKeys';
import type { RecordRow, RecordsPage, TableGroup } from '../api/types';
import { TO_REVIEW } from './statuses';
import { rowMarks } from './rowMarks';
import { conditionText, type RowsView } from './tableView';

/** Rows in a page. */
export const PAGE = 100;
/** The most rows that the API returns at once. */
export const MAX_ROWS = 500;

/** Rows of a table, by the id of its stack or schema. */
export interface TableRequest extends RowsView {
  table: string;
  /** Rows that are being read come first, unless another order is chosen. */
  readingFirst?: true;
}

export function rowKey(row: RecordRow): string {
  return `${row.document_id} ${row.path ?? ''}`;
}

/** Identify the table, whatever its filter and order. */
export function tableKey({ table, list }: TableRequest): string {
  return `${table} ${list ?? ''}`;
}

/** Return the request without its order: neither totals nor counts depend on it. */
function unordered({
  sort: _,
  descending: __,
  byStatus: ___,
  readingFirst: ____,
  group: _____,
  ...request
}: TableRequest) {
  return request;
}

/** Return whether a changed value may move or remove a row. */
export function dependsOnValues({ sort, byStatus, group, filter, cells, state }: TableRequest): boolean {
  return [sort, byStatus, group, filter, cells, state].some((one) => one !== undefined);
}

/** A page of rows. Once loaded, its rows keep their order until a person asks: see `rowsQuery`. */
export interface LoadedPage extends RecordsPage {
  /** The keys of the rows that have changed since, and may belong elsewhere. */
  changed?: readonly string[];
  /** The number of rows that match now. Only of the first page. */
  matching?: number;
}

function queryOf({
  list,
  filter,
  cells,
  state,
  sort,
  descending,
  byStatus,
  readingFirst,
  group,
}: Omit<TableRequest, 'table'>) {
  return {
    ...(list !== undefined && { list }),
    ...(filter !== undefined && { filter: filter.map(conditionText) }),
    ...(state !== undefined && { row_status: [state] }),
    ...(cells !== undefined && { cell_status: cells === 'to_review' ? [...TO_REVIEW] : [cells] }),
    ...(sort !== undefined && { sort, descending: descending === true }),
    ...(byStatus === true && { by_status: true }),
    ...(readingFirst === true && sort === undefined && byStatus === undefined && { reading_first: true }),
    ...(group !== undefined && { group_by: group }),
  };
}

async function fetchRows(
  { table, ...request }: TableRequest,
  more: { limit: number; offset?: number; totals?: boolean; marks?: boolean; column?: string },
  signal: AbortSignal,
): Promise<RecordsPage> {
  const params = { path: { table_id: table }, query: { ...queryOf(request), ...more } };
  return (await api.get('/api/tables/{table_id}/rows', { ...params, signal })) as RecordsPage;
}

/** `page` counts from 0. Rows whose order depends on values are updated in place: no change moves a row under a
 * person's hands. `sortAgain` loads them in their order. */
export const rowsQuery = (request: TableRequest, page: number) =>
  queryOptions({
    queryKey: ['records', 'rows', request, page],
    queryFn: async ({ signal, client, queryKey }): Promise<LoadedPage> => {
      const before = client.getQueryData<LoadedPage>(queryKey);
      if (before === undefined || before.items.length === 0 || !dependsOnValues(request))
        return fetchRows(request, { limit: PAGE, offset: page * PAGE }, signal);
      const [rows, table] = await Promise.all([
        fetchChosen(request, before.items, signal),
        page === 0 ? fetchRows(request, { limit: 1 }, signal) : undefined,
      ]);
      return inPlace(before, rows, table);
    },
    staleTime: 60_000,
  });

async function fetchChosen({ table, list }: TableRequest, items: readonly RecordRow[], signal: AbortSignal) {
  const params = { path: { table_id: table }, query: list === undefined ? {} : { list } };
  const body = { rows: items.map(({ document_id, path }) => ({ document_id, path })) };
  return (await api.post('/api/tables/{table_id}/rows', { ...params, body, signal })).items;
}

/** Return a page with its rows as they are now, in the same order. A row that is gone stays as it was. */
export function inPlace(before: LoadedPage, rows: readonly RecordRow[], table?: RecordsPage): LoadedPage {
  const now = new Map(rows.map((row) => [rowKey(row), row]));
  const isChanged = (row: RecordRow) => {
    const found = now.get(rowKey(row));
    return found?.version !== row.version || found?.status !== row.status;
  };
  const changed = new Set([...(before.changed ?? []), ...before.items.filter(isChanged).map(rowKey)]);
  return {
    ...before,
    ...(table !== undefined && {
      columns: table.columns,
      required: table.required,
      lists: table.lists,
      matching: table.total,
    }),
    items: before.items.map((row) => now.get(rowKey(row)) ?? row),
    changed: [...changed],
  };
}

/** Return the number of rows that may belong elsewhere. A page that is loaded later than others can repeat their rows. */
export function countMoved(pages: readonly LoadedPage[], total: number): number {
  const keys = pages.flatMap(({ items }) => items.map(rowKey));
  return pages.reduce(
    (sum, { changed = [], matching = 0 }) => sum + changed.length + Math.max(0, matching - total),
    keys.length - new Set(keys).size,
  );
}

/** Load rows in the order and by the filter that they have now. */
export async function sortAgain(queries: QueryClient): Promise<void> {
  const ofRows: QueryKey[] = [
    ['records', 'rows'],
    ['records', 'headers'],
  ];
  await Promise.all(ofRows.map((queryKey) => queries.resetQueries({ queryKey })));
}

/** Likely duplicates and outliers among the rows of a page. They take longer than the rows, which are shown before. */
export const marksQuery = (request: TableRequest, page: number) =>
  queryOptions({
    queryKey: ['records', 'marks', request, page],
    queryFn: async ({ signal }) =>
      rowMarks((await fetchRows(request, { limit: PAGE, offset: page * PAGE, marks: true }, signal)).marks),
    staleTime: 60_000,
    retry: false,
  });

/** The first rows, as many as the API returns at once. */
export const firstRowsQuery = (request: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'first rows', request],
    queryFn: async ({ signal }) => (await fetchRows(request, { limit: MAX_ROWS }, signal)).items,
    staleTime: 0,
    gcTime: 0,
  });

/** The number of rows; with `column`, of those with a cell of the statuses in it. */
export const countQuery = (request: TableRequest, column?: string) =>
  queryOptions({
    queryKey: ['records', 'totals', 'count', unordered(request), column ?? null],
    queryFn: async ({ signal }) =>
      (await fetchRows(unordered(request), { limit: 1, ...(column !== undefined && { column }) }, signal)).total,
    staleTime: 60_000,
  });

/** The totals of the number columns. */
export const totalsQuery = (request: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'totals', unordered(request)],
    queryFn: async ({ signal }) => (await fetchRows(unordered(request), { limit: 1, totals: true }, signal)).totals,
    staleTime: 60_000,
  });

/** The groups of the rows, with sums, in the order of the rows. */
export const groupsQuery = (request: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'totals', 'groups', request],
    queryFn: async ({ signal }) => {
      const { table, ...view } = request;
      const query = { ...queryOf(view), group_by: request.group ?? '', limit: MAX_ROWS };
      return (await api.get('/api/tables/{table_id}/groups', { path: { table_id: table }, query, signal })).items;
    },
    staleTime: 60_000,
  });

/** The groups as they were when the rows were loaded: the headers stay above their rows. */
export const headersQuery = (request: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'headers', request],
    queryFn: ({ client, queryKey }): Promise<TableGroup[]> | TableGroup[] =>
      client.getQueryData<TableGroup[]>(queryKey) ?? client.fetchQuery({ ...groupsQuery(request), staleTime: 0 }),
    staleTime: Infinity,
  });

export const savedViewsQuery = (table: string) =>
  queryOptions({
    queryKey: ['records', 'views', table],
    queryFn: async ({ signal }) =>
      (await api.get('/api/tables/{table_id}/views', { path: { table_id: table }, signal })).items,
    staleTime: 30_000,
  });

/** Return the address of a table's export. */
export function exportAddress({ table, ...view }: TableRequest, format: string): string {
  const params = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(queryOf(view)))
    for (const one of [value].flat()) params.append(name, String(one));
  return `/api/tables/${encodeURIComponent(table)}/export?${params}`;
}
