/** The rows of a table, by pages as they are scrolled to; if they are grouped, below the headers of their groups. */

import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef } from 'react';
import type { RecordRow } from '../api/types';
import { groupLines, type RowGroup, UNGROUPED } from './groupLines';
import type { RowMarks } from '../records/rowMarks';
import {
  countMoved,
  dependsOnValues,
  headersQuery,
  type LoadedPage,
  marksQuery,
  PAGE,
  rowKey,
  rowsQuery,
  tableKey,
  type TableRequest,
} from '../records/tableQueries';

export interface TableRows {
  /** undefined: not loaded yet. */
  first: LoadedPage | undefined;
  total: number;
  /** The number of lines: the rows that are shown, and the headers of groups. */
  lines: number;
  /** The number of rows that have changed since they were loaded, and may belong elsewhere. */
  changed: number;
  error: unknown;
  /** The rows of an earlier filter or order are shown until those of the new one are there. */
  isPrevious: boolean;
  /** Return the row of a line; undefined: it is not loaded, or is a header. */
  rowAt: (line: number) => RecordRow | undefined;
  groupAt: (line: number) => RowGroup | undefined;
  marksAt: (line: number) => RowMarks | undefined;
  /** Return the line of a loaded row by its key. */
  indexOf: (key: string) => number | undefined;
  /** Return the rows of the lines from `from` to `to`, inclusive; load those that are not loaded. */
  load: (from: number, to: number) => Promise<{ line: number; row: RecordRow }[]>;
  retry: () => void;
}

/** `from` and `to`: the lines on the screen. `isSettled`: what matters more is loaded. `closed`: keys of groups. */
export function useTableRows(
  request: TableRequest,
  from: number,
  to: number,
  isSettled: boolean,
  closed: ReadonlySet<string>,
): TableRows {
  const queries = useQueryClient();
  const head = useQuery(rowsQuery(request, 0)); // it has the columns and the total
  const isGrouped = request.group !== undefined;
  const headers = useQuery({ ...headersQuery(request), enabled: isGrouped });
  // The first rows of the earlier filter or order, so that the grid stays, with its focus.
  const [earlier, table] = [useRef<{ table: string; page: LoadedPage } | undefined>(undefined), tableKey(request)];
  const own = isGrouped && headers.data === undefined ? undefined : head.data;
  const error = head.error ?? (isGrouped ? headers.error : null);
  const isPrevious = own === undefined && error === null && earlier.current?.table === table;
  if (own !== undefined) earlier.current = { table, page: own };
  const first = isPrevious ? earlier.current!.page : own;
  const total = first?.total ?? 0;
  const groups = isGrouped && own !== undefined ? headers.data : undefined;
  const lines = useMemo(
    () => (groups === undefined ? { ...UNGROUPED, count: total } : groupLines(groups, total, closed)),
    [groups, total, closed],
  );
  const shown = useMemo(() => {
    const found = new Set<number>();
    for (let line = from; line <= Math.min(to, lines.count - 1); line += 1)
      if (lines.groupAt(line) === undefined) found.add(Math.floor(lines.rowOf(line) / PAGE));
    return [...found];
  }, [from, to, lines]);
  const pages = shown.filter((page) => page > 0);
  const results = useQueries({ queries: pages.map((page) => rowsQuery(request, page)) });
  const byPage = new Map(pages.map((page, index) => [page, results[index]?.data]));
  byPage.set(0, first);
  const latest = useRef(byPage);
  latest.current = byPage;
  const marked = [...new Set([0, ...pages])];
  const marks = useQueries({
    queries: marked.map((page) => ({
      ...marksQuery(request, page),
      enabled: byPage.get(page) !== undefined && !isPrevious && isSettled,
    })),
  });
  const latestMarks = useRef(new Map<number, ReadonlyMap<string, RowMarks> | undefined>());
  latestMarks.current = new Map(marked.map((page, index) => [page, marks[index]?.data]));
  const rowAt = useCallback(
    (line: number) => {
      if (lines.groupAt(line) !== undefined) return undefined;
      const row = lines.rowOf(line);
      return latest.current.get(Math.floor(row / PAGE))?.items[row % PAGE];
    },
    [lines],
  );
  const load = useCallback(
    async (start: number, end: number) => {
      const found: { line: number; row: RecordRow }[] = [];
      for (let line = Math.max(0, start); line <= end; line += 1) {
        if (lines.groupAt(line) !== undefined) continue;
        const index = lines.rowOf(line);
        const { items } = await queries.ensureQueryData(rowsQuery(request, Math.floor(index / PAGE)));
        const row = items[index % PAGE];
        if (row !== undefined) found.push({ line, row });
      }
      return found;
    },
    [queries, request, lines],
  );
  const loaded =
    isPrevious || !dependsOnValues(request) ? [] : [...byPage.values()].filter((page) => page !== undefined);
  return {
    first,
    total,
    lines: lines.count,
    changed: countMoved(loaded, total),
    error: error ?? results.find((result) => result.error !== null)?.error ?? null,
    isPrevious,
    rowAt,
    groupAt: lines.groupAt,
    marksAt: useCallback(
      (line: number) =>
        latestMarks.current.get(Math.floor(lines.rowOf(line) / PAGE))?.get(rowAt(line)?.extraction_id ?? ''),
      [lines, rowAt],
    ),
    indexOf: useCallback(
      (key: string) => {
        for (const [page, data] of latest.current) {
          const at = data?.items.findIndex((row) => rowKey(row) === key) ?? -1;
          if (at >= 0) return lines.lineOf(page * PAGE + at);
        }
        return undefined;
      },
      [lines],
    ),
    load,
    retry: () => {
      for (const result of [head, headers, ...results]) if (result.isError) void result.refetch();
    },
  };
}
