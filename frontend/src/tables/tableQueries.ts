/** Queries for tables: the list of tables, pages of rows, and totals. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { RecordsPage } from '../api/types';
import { TO_REVIEW } from './cellStatus';
import { rowMarks } from './rowMarks';
import { conditionText, type TableView } from './tableView';

/** Rows in a page. */
export const PAGE = 100;
/** The most rows that the API returns at once. */
export const MAX_ROWS = 500;

/** The table of a schema or of a stack. */
export interface TableRequest extends TableView {
  of: { schema: string } | { stack: string };
}

/** Identify the table, whatever its filter and order. */
export function tableKey({ of, list }: TableRequest): string {
  return 'stack' in of ? `stack ${of.stack}` : `${of.schema} ${list ?? ''}`;
}

function idOf(of: TableRequest['of']): string {
  return 'stack' in of ? of.stack : of.schema;
}

export const tablesQuery = queryOptions({
  queryKey: ['records', 'tables'],
  queryFn: async ({ signal }) => (await dataOf(api.GET('/api/tables', { signal }))).items,
  staleTime: 30_000,
  refetchInterval: 60_000,
});

function queryOf({ list, filter, cells, state, sort, descending, byStatus }: TableView) {
  return {
    ...(list !== undefined && { list }),
    ...(filter !== undefined && { filter: filter.map(conditionText) }),
    ...(state !== undefined && { row_status: [state] }),
    ...(cells !== undefined && { cell_status: cells === 'to_review' ? [...TO_REVIEW] : [cells] }),
    ...(sort !== undefined && { sort, descending: descending === true }),
    ...(byStatus === true && { by_status: true }),
  };
}

async function fetchRows(
  { of, ...request }: TableRequest,
  more: { limit: number; offset?: number; totals?: boolean; marks?: boolean },
  signal: AbortSignal,
): Promise<RecordsPage> {
  const params = { path: { table_id: idOf(of) }, query: { ...queryOf(request), ...more } };
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

/** The number of rows with cells that a person should look at. */
export const openRowsQuery = ({ sort: _, descending: __, byStatus: ___, ...request }: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'totals', 'open', request],
    queryFn: async ({ signal }) => (await fetchRows({ ...request, cells: 'to_review' }, { limit: 1 }, signal)).total,
    staleTime: 60_000,
  });

/** The totals of the number columns. They don't depend on the order. */
export const totalsQuery = ({ sort: _, descending: __, byStatus: ___, ...request }: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'totals', request],
    queryFn: async ({ signal }) => (await fetchRows(request, { limit: 1, totals: true }, signal)).totals,
    staleTime: 60_000,
  });

/** Return the address of a table's export. */
export function exportAddress(request: TableRequest, format: string): string {
  const params = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(queryOf(request)))
    for (const one of [value].flat()) params.append(name, String(one));
  return `/api/tables/${encodeURIComponent(idOf(request.of))}/export?${params}`;
}
