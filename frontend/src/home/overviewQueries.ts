/** Queries of Home and of the quality of a table. */

import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import type { CountedKind } from '../api/types';
import type { Period } from './period';

/** Of a number that are listed. */
export const MOST_VALUES = 200;

const days = ({ since, until }: Period) => ({ since, until });

export const overviewQuery = (period: Period) =>
  queryOptions({
    queryKey: ['overview', days(period)],
    queryFn: ({ signal }) => api.get('/api/overview', { query: days(period), signal }),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });

/** What is done today, and what is being read. */
export const workQuery = queryOptions({
  queryKey: ['overview', 'work'],
  queryFn: ({ signal }) => api.get('/api/overview/work', { signal }),
  refetchInterval: ({ state: { data } }) =>
    data !== undefined && data.filling.length + data.reading > 0 ? 3_000 : 15_000,
});

export const qualityQuery = (schemaId: string, period: Period) =>
  queryOptions({
    queryKey: ['overview', 'quality', schemaId, days(period)],
    queryFn: ({ signal }) =>
      api.get('/api/schemas/{schema_id}/quality', { path: { schema_id: schemaId }, query: days(period), signal }),
    placeholderData: keepPreviousData,
  });

export const countedValuesQuery = (schemaId: string, period: Period, show: CountedKind, column: string | undefined) =>
  queryOptions({
    queryKey: ['overview', 'values', schemaId, days(period), show, column ?? null],
    queryFn: ({ signal }) =>
      api.get('/api/schemas/{schema_id}/quality/values', {
        path: { schema_id: schemaId },
        query: { ...days(period), show, limit: MOST_VALUES, ...(column !== undefined && { column }) },
        signal,
      }),
    placeholderData: keepPreviousData,
  });
