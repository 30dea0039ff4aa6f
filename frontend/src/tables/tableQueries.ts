/** Queries for tables: the list of tables, pages of rows, and totals. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { RecordsPage } from '../api/types';
import { conditionText, type TableView } from './tableView';

/** Rows in a page. */
export const PAGE = 100;
/** The most rows that the API returns at once. */
export const MAX_ROWS = 500;

export interface TableRequest extends TableView {
  schemaId: string;
}

export const tablesQuery = queryOptions({
  queryKey: ['records', 'tables'],
  queryFn: async ({ signal }) => (await dataOf(api.GET('/api/records', { signal }))).items,
  staleTime: 30_000,
  refetchInterval: 60_000,
});

function queryOf({ list, filter, review, sort, descending }: TableRequest) {
  return {
    ...(list !== undefined && { list }),
    ...(filter !== undefined && { filter: filter.map(conditionText) }),
    ...(review === true && { cell_status: 'needs_review' as const }),
    ...(sort !== undefined && { sort, descending: descending === true }),
  };
}

function fetchRows(request: TableRequest, more: { limit: number; offset?: number; totals?: boolean }, signal: AbortSignal) {
  const params = { path: { schema_id: request.schemaId }, query: { ...queryOf(request), ...more } };
  return dataOf(api.GET('/api/schemas/{schema_id}/records', { params, signal })) as Promise<RecordsPage>;
}

/** `page` counts from 0. */
export const rowsQuery = (request: TableRequest, page: number) =>
  queryOptions({
    queryKey: ['records', 'rows', request, page],
    queryFn: ({ signal }) => fetchRows(request, { limit: PAGE, offset: page * PAGE }, signal),
    staleTime: 60_000,
  });

/** The first rows, as many as the API returns at once. */
export const firstRowsQuery = (request: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'first rows', request],
    queryFn: async ({ signal }) => (await fetchRows(request, { limit: MAX_ROWS }, signal)).items,
    staleTime: 0,
    gcTime: 0,
  });

/** The totals of the number columns. They don't depend on the order. */
export const totalsQuery = ({ sort: _, descending: __, ...request }: TableRequest) =>
  queryOptions({
    queryKey: ['records', 'totals', request],
    queryFn: async ({ signal }) => (await fetchRows(request, { limit: 1, totals: true }, signal)).totals,
    staleTime: 60_000,
  });

/** Return the address of a table's export. */
export function exportAddress(request: TableRequest, format: string): string {
  const { filter = [], ...others } = queryOf(request);
  const params = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(others)) params.append(name, String(value));
  for (const condition of filter) params.append('filter', condition);
  return `/api/schemas/${encodeURIComponent(request.schemaId)}/records/export?${params}`;
}
