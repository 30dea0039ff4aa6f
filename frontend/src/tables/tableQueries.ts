/** Queries for tables: the list of tables, pages of rows, and totals. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { RecordsPage } from '../api/types';
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

/** Identify the table, whatever its filter and order. */
export function tableKey({ table, list }: TableRequest): string {
  return `${table} ${list ?? ''}`;
}

/** Return the request without its order: neither totals nor counts depend on it. */
function unordered({ sort: _, descending: __, byStatus: ___, readingFirst: ____, ...request }: TableRequest) {
  return request;
}

export const tablesQuery = queryOptions({
  queryKey: ['records', 'tables'],
  queryFn: async ({ signal }) => (await dataOf(api.GET('/api/tables', { signal }))).items,
  staleTime: 30_000,
  refetchInterval: 60_000,
});

function queryOf({
  list,
  filter,
  cells,
  state,
  sort,
  descending,
  byStatus,
  readingFirst,
}: Omit<TableRequest, 'table'>) {
  return {
    ...(list !== undefined && { list }),
    ...(filter !== undefined && { filter: filter.map(conditionText) }),
    ...(state !== undefined && { row_status: [state] }),
    ...(cells !== undefined && { cell_status: cells === 'to_review' ? [...TO_REVIEW] : [cells] }),
    ...(sort !== undefined && { sort, descending: descending === true }),
    ...(byStatus === true && { by_status: true }),
    ...(readingFirst === true && sort === undefined && byStatus === undefined && { reading_first: true }),
  };
}

async function fetchRows(
  { table, ...request }: TableRequest,
  more: { limit: number; offset?: number; totals?: boolean; marks?: boolean; column?: string },
  signal: AbortSignal,
): Promise<RecordsPage> {
  const params = { path: { table_id: table }, query: { ...queryOf(request), ...more } };
  return (await dataOf(api.GET('/api/tables/{table_id}/rows', { params, signal }))) as RecordsPage;
}

/** `page` counts from 0. */
export const rowsQuery = (request: TableRequest, page: number) =>
  queryOptions({
    queryKey: ['records', 'rows', request, page],
    queryFn: ({ signal }) => fetchRows(request, { limit: PAGE, offset: page * PAGE }, signal),
    staleTime: 60_000,
  });

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

/** The rows by the value of a column, with sums. */
export const groupsQuery = (request: TableRequest, by: string) =>
  queryOptions({
    queryKey: ['records', 'totals', 'groups', unordered(request), by],
    queryFn: ({ signal }) => {
      const { table, ...view } = unordered(request);
      const params = { path: { table_id: table }, query: { ...queryOf(view), by } };
      return dataOf(api.GET('/api/tables/{table_id}/groups', { params, signal }));
    },
    staleTime: 60_000,
  });

export const savedViewsQuery = (table: string) =>
  queryOptions({
    queryKey: ['records', 'views', table],
    queryFn: async ({ signal }) =>
      (await dataOf(api.GET('/api/tables/{table_id}/views', { params: { path: { table_id: table } }, signal }))).items,
    staleTime: 30_000,
  });

/** Return the address of a table's export. */
export function exportAddress({ table, ...view }: TableRequest, format: string): string {
  const params = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(queryOf(view)))
    for (const one of [value].flat()) params.append(name, String(one));
  return `/api/tables/${encodeURIComponent(table)}/export?${params}`;
}
