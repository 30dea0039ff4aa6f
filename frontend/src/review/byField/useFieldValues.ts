/** The values of one field across documents, the active row, and decisions. */

import { infiniteQueryOptions, useInfiniteQuery, useQueryClient, type InfiniteData } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import { dataOf, api } from '../../api/client';
import type { Evidence, Extraction, FieldValue, FieldValues } from '../../api/types';
import { extractionQuery } from '../../document/documentPageQueries';
import { pathSteps, valueAt } from '../../document/fields/paths';
import { useDecisions, type Seen } from '../useDecisions';
import type { Column } from './column';

const valuesQuery = (path: string, documentType: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ['field values', path, documentType ?? null],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) => {
      const query = {
        path,
        limit: 100,
        ...(documentType !== undefined && { document_type: documentType }),
        ...(pageParam !== null && { before: pageParam }),
      };
      return (await dataOf(api.GET('/api/fields/values', { params: { query }, signal }))) as FieldValues;
    },
    getNextPageParam: (last) => last.next,
    // The order must not change while the person works through the list.
    staleTime: Infinity,
    gcTime: 0,
  });

export function useFieldValues({ path = '', document_type: documentType }: Column) {
  const queries = useQueryClient();
  const options = useMemo(() => valuesQuery(path, documentType), [path, documentType]);
  const { queryKey } = options;
  const query = useInfiniteQuery({ ...options, enabled: path !== '' });
  const rows = useMemo(() => (query.data?.pages ?? []).flatMap((page) => page.items), [query.data]);
  const [active, setActive] = useState(0);
  const [refused, setRefused] = useState<ReadonlySet<string>>(new Set());

  /** Update an extraction's row. */
  const changed = useCallback(
    (now: Extraction) => {
      const steps = pathSteps(path) ?? [];
      const of = (row: FieldValue): FieldValue => ({
        ...row,
        version: now.version,
        value: (valueAt(now.extracted_fields, steps) ?? null) as FieldValue['value'],
        confidence: now.confidence_scores[path] ?? null,
        evidence: (now.evidence[path] as Evidence | undefined) ?? null,
        lock: now.locks[path] ?? null,
        ...(now.statuses[path] ?? { status: 'not_written', reason: null }),
      });
      queries.setQueryData<InfiniteData<FieldValues, string | null>>(
        queryKey,
        (before) =>
          before && {
            ...before,
            pages: before.pages.map((page) =>
              page.items.some((row) => row.extraction_id === now.id)
                ? { ...page, items: page.items.map((row) => (row.extraction_id === now.id ? of(row) : row)) }
                : page,
            ),
          },
      );
    },
    [path, queries, queryKey],
  );
  /** At the version that the row shows, so that a change by someone else is a conflict. */
  const seen = useCallback(
    async (id: string): Promise<Seen> => {
      const pages = queries.getQueryData<InfiniteData<FieldValues>>(queryKey)?.pages ?? [];
      const row = pages.flatMap((page) => page.items).find((one) => one.extraction_id === id);
      if (row === undefined) return queries.fetchQuery(extractionQuery(id));
      return { version: row.version, locks: row.lock === null ? {} : { [path]: row.lock }, proposals: [] };
    },
    [path, queries, queryKey],
  );
  const mark = useCallback(
    (id: string, _: string, is: boolean) => {
      setRefused((before) => new Set([...before].filter((one) => one !== id)));
      // Failed or undone: show the stored value.
      if (!is)
        void queries
          .fetchQuery({ ...extractionQuery(id), staleTime: 0 })
          .then(changed)
          .catch(() => undefined);
    },
    [changed, queries],
  );
  const { write, confirm, undo, times, canUndo } = useDecisions({ seen, mark, changed });

  const go = useCallback((to: number) => setActive(Math.max(0, Math.min(rows.length - 1, to))), [rows.length]);
  /** Move on, and mark the row if saving fails. */
  const settle = (row: FieldValue, to: number, done: Promise<boolean>) => {
    if (to !== active) go(to);
    void done.then((is) => !is && setRefused((before) => new Set(before).add(row.extraction_id)));
  };
  return {
    query,
    rows,
    active,
    refused,
    times,
    canUndo,
    go,
    /** Of a field without a value: that the document has none. */
    confirm: (row: FieldValue, index: number) =>
      settle(
        row,
        index + 1,
        row.value === null ? write(row.extraction_id, path, null) : confirm(row.extraction_id, path),
      ),
    write: (row: FieldValue, index: number, value: unknown, by: number) =>
      settle(row, index + by, write(row.extraction_id, path, value)),
    undo: () => {
      const last = undo();
      const at = rows.findIndex((row) => row.extraction_id === last?.extractionId);
      if (at >= 0) setActive(at);
    },
  };
}
