/** Queries of Home and of the quality of a table. */

import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, dataOf } from '../api/client';
import type { Period } from './period';

const days = ({ since, until }: Period) => ({ since, until });

export const overviewQuery = (period: Period) =>
  queryOptions({
    queryKey: ['overview', days(period)],
    queryFn: ({ signal }) => dataOf(api.GET('/api/overview', { params: { query: days(period) }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });

/** What is done today, and what is being read. */
export const workQuery = queryOptions({
  queryKey: ['overview', 'work'],
  queryFn: ({ signal }) => dataOf(api.GET('/api/overview/work', { signal })),
  refetchInterval: ({ state: { data } }) =>
    data !== undefined && data.filling.length + data.reading > 0 ? 3_000 : 15_000,
});

export const qualityQuery = (schemaId: string, period: Period) =>
  queryOptions({
    queryKey: ['overview', 'quality', schemaId, days(period)],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/schemas/{schema_id}/quality', {
          params: { path: { schema_id: schemaId }, query: days(period) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

export const correctionsQuery = (schemaId: string, period: Period, column: string | undefined) =>
  queryOptions({
    queryKey: ['overview', 'corrections', schemaId, days(period), column ?? null],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/schemas/{schema_id}/corrections', {
          params: {
            path: { schema_id: schemaId },
            query: { ...days(period), limit: 200, ...(column !== undefined && { column }) },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

/** The SQL of a view of a schema's table. */
export const viewQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['schemas', schemaId, 'view'],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/api/tables/{table_id}/view', { params: { path: { table_id: schemaId } }, signal })),
    staleTime: 60_000,
  });
