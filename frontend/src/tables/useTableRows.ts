/** The rows of a table, by pages as they are scrolled to. */

import { useQueries, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef } from 'react';
import type { RecordRow, RecordsPage } from '../api/types';
import type { RowMarks } from './rowMarks';
import { rowKey } from './useSelection';
import { marksQuery, PAGE, rowsQuery, tableKey, type TableRequest } from './tableQueries';

export interface TableRows {
  /** undefined: not loaded yet. */
  first: RecordsPage | undefined;
  total: number;
  error: unknown;
  /** The rows of an earlier filter or order are shown until those of the new one are there. */
  isPrevious: boolean;
  rowAt: (index: number) => RecordRow | undefined;
  marksAt: (index: number) => RowMarks | undefined;
  /** Return the index of a loaded row by its key. */
  indexOf: (key: string) => number | undefined;
  /** Return rows from `from` to `to`, inclusive; load those that are not loaded. */
  load: (from: number, to: number) => Promise<RecordRow[]>;
  retry: () => void;
}

/** `from` and `to`: the rows on the screen. `isSettled`: what matters more is loaded. */
export function useTableRows(request: TableRequest, from: number, to: number, isSettled: boolean): TableRows {
  const queries = useQueryClient();
  const pages = useMemo(() => {
    const last = Math.floor(Math.max(to, 0) / PAGE);
    const shown = Array.from(
      { length: last - Math.floor(from / PAGE) + 1 },
      (_, index) => Math.floor(from / PAGE) + index,
    );
    return [...new Set([0, ...shown])]; // the first page has the columns and the total
  }, [from, to]);
  const results = useQueries({ queries: pages.map((page) => rowsQuery(request, page)) });
  const error = results.find((result) => result.error !== null)?.error ?? null;
  const byPage = new Map(pages.map((page, index) => [page, results[index]?.data]));
  // The first rows of the earlier filter or order, so that the grid stays, with its focus. (`placeholderData` of useQueries
  // does not get them.)
  const [earlier, table] = [useRef<{ table: string; page: RecordsPage } | undefined>(undefined), tableKey(request)];
  const own = byPage.get(0);
  const isPrevious = own === undefined && error === null && earlier.current?.table === table;
  if (own !== undefined) earlier.current = { table, page: own };
  else if (isPrevious) byPage.set(0, earlier.current!.page);
  const latest = useRef(byPage);
  latest.current = byPage;
  const first = byPage.get(0);
  const marks = useQueries({
    queries: pages.map((page) => ({
      ...marksQuery(request, page),
      enabled: byPage.get(page) !== undefined && !isPrevious && isSettled,
    })),
  });
  const latestMarks = useRef(new Map<number, ReadonlyMap<string, RowMarks> | undefined>());
  latestMarks.current = new Map(pages.map((page, index) => [page, marks[index]?.data]));
  const load = useCallback(
    async (start: number, end: number) => {
      const rows: RecordRow[] = [];
      for (let page = Math.floor(start / PAGE); page <= Math.floor(end / PAGE); page += 1) {
        const { items } = await queries.ensureQueryData(rowsQuery(request, page));
        const offset = page * PAGE;
        rows.push(...items.slice(Math.max(0, start - offset), end - offset + 1));
      }
      return rows;
    },
    [queries, request],
  );
  return {
    first,
    total: first?.total ?? 0,
    error,
    isPrevious,
    rowAt: useCallback((index: number) => latest.current.get(Math.floor(index / PAGE))?.items[index % PAGE], []),
    marksAt: useCallback((index: number) => {
      const page = Math.floor(index / PAGE);
      return latestMarks.current.get(page)?.get(latest.current.get(page)?.items[index % PAGE]?.extraction_id ?? '');
    }, []),
    indexOf: useCallback((key: string) => {
      for (const [page, data] of latest.current) {
        const at = data?.items.findIndex((row) => rowKey(row) === key) ?? -1;
        if (at >= 0) return page * PAGE + at;
      }
      return undefined;
    }, []),
    load,
    retry: () => {
      for (const result of results) if (result.isError) void result.refetch();
    },
  };
}
