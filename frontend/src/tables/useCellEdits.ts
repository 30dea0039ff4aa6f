/** Saving values of cells: one change each, with a check of the version that the person saw. A value that someone else has
 * changed meanwhile is not overwritten: the person chooses between both. */

import { useQueryClient, type Query } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { api, ApiError } from '../api/client';
import type { Change, Extraction, ReadRow, RecordCell, RecordRow, TableColumn } from '../api/types';
import { extractionQuery } from '../fields/extractionQueries';
import { needsPerson } from '../fields/fieldStatus';
import { pathSteps, valueAt } from '../fields/paths';
import { proposalOf } from '../fields/proposals';
import { type Decisions, type Seen, useDecisions } from '../fields/useDecisions';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { cellStatusText, isRead } from './cellStatus';
import { cellPath, type GridColumn } from './gridColumns';
import { type LoadedPage, rowKey } from '../records/tableQueries';
import { refresh } from '../api/queryKeys';

export interface CellEdit {
  row: ReadRow;
  column: GridColumn;
  value: RecordCell['value'];
}

/** An edit that was not saved: someone else has set another value, `now`, since the row was shown. */
export interface CellConflict extends CellEdit {
  path: string;
  now: RecordCell['value'];
  /** Their change; undefined: not known. */
  change: Change | undefined;
}

export function useCellEdits() {
  const queries = useQueryClient();
  /** The newest known version of each extraction that was changed here, and its locked fields. */
  const rowsSeen = useRef(new Map<string, Pick<Seen, 'version' | 'locks'> & Partial<Seen>>());

  const changed = useCallback(
    (now: Extraction) => {
      rowsSeen.current.set(now.id, now);
      // Known as one's own change: it does not sort the rows again under the person's hands.
      queries.setQueryData(extractionQuery(now.id).queryKey, now);
      queries.setQueriesData<LoadedPage>({ queryKey: ['records', 'rows'] }, (page) => page && pageWith(page, now));
      // A response to a request from before the change would overwrite it.
      const isUpdating = ({ state }: Query) => state.fetchStatus === 'fetching' && state.data !== undefined;
      void queries.invalidateQueries({ queryKey: ['records', 'rows'], predicate: isUpdating });
      void refresh(queries, ['records', 'totals'], ['records', 'tables']);
    },
    [queries],
  );
  const seen = useCallback(
    (id: string): Promise<Seen> => Promise.resolve({ proposals: [], ...rowsSeen.current.get(id)! }),
    [],
  );
  const mark = useCallback(
    (id: string, _: string, is: boolean) => {
      // Failed or undone: show what is stored.
      if (!is) void queries.fetchQuery({ ...extractionQuery(id), staleTime: 0 }).then(changed, () => undefined);
    },
    [changed, queries],
  );
  const decisions = useDecisions({ seen, mark, changed });
  const { write, confirm, decideProposals, settled, undo, undoBatch, canUndo } = decisions;

  const pathOf = ({ row, column }: Pick<CellEdit, 'row' | 'column'>) =>
    row.cells[column.path]?.path ?? cellPath(column.path, row.path);
  const look = (row: ReadRow) => {
    if ((rowsSeen.current.get(row.extraction_id)?.version ?? -1) >= row.version) return;
    const locked = Object.values(row.cells).filter(
      ({ status, reason }) => status === 'confirmed' || (status === 'blank' && reason === 'person'),
    );
    rowsSeen.current.set(row.extraction_id, {
      version: row.version,
      locks: Object.fromEntries(locked.map(({ path }) => [path, {}])) as Seen['locks'],
    });
  };
  const [conflicts, setConflicts] = useState<readonly CellConflict[]>([]);
  const dropConflict = (one: CellConflict) => setConflicts((before) => before.filter((other) => other !== one));

  /** Show a conflict if the stored value is another one; else report the error. */
  const refuse = async (edit: CellEdit, path: string, error: unknown, onError: (error: unknown) => void) => {
    if (!(error instanceof ApiError && error.status === 409)) return onError(error);
    const id = edit.row.extraction_id;
    try {
      const stored = await queries.fetchQuery({ ...extractionQuery(id), staleTime: 0 });
      const now = storedValue(stored, path);
      if (now === (edit.row.cells[edit.column.path]?.value ?? null)) return onError(error);
      if (now === edit.value) return undefined; // both entered the same value
      const params = { path: { extraction_id: id }, query: { path, limit: 1 } };
      const { items } = await api.get('/api/extractions/{extraction_id}/history', params);
      return setConflicts((before) => [...before, { ...edit, path, now, change: (items as Change[])[0] }]);
    } catch {
      return onError(error);
    }
  };
  const report = (error: unknown) => void toast(errorMessage(error), { urgent: true });
  return {
    canUndo,
    /** Undo the last change; all that were made together. */
    undo,
    undoBatch,
    settled,
    /** The decisions of a person who sees this row. (Not before one is made: an open editor shows an older row.) */
    decisionsOf(row: RecordRow): Decisions {
      const seeing =
        <A extends unknown[], R>(act: (...given: A) => R) =>
        (...given: A): R => {
          if (isRead(row)) look(row);
          return act(...given);
        };
      return { ...decisions, write: seeing(write), confirm: seeing(confirm), decideProposals: seeing(decideProposals) };
    },
    conflicts,
    /** Save the person's value in place of the other one, which they have seen. */
    async keepMine(one: CellConflict): Promise<void> {
      dropConflict(one);
      const seenRow = {
        ...one.row,
        cells: { ...one.row.cells, [one.column.path]: { ...one.row.cells[one.column.path]!, value: one.now } },
      };
      const onError = (error: unknown) => void refuse({ ...one, row: seenRow }, one.path, error, report);
      await write(one.row.extraction_id, one.path, one.value, { was: one.now, onError });
    },
    keepTheirs: dropConflict,
    /** `batch`: those of the same one are undone together. */
    write(edit: CellEdit, onError: (error: unknown) => void = report, batch?: symbol): Promise<boolean> {
      look(edit.row);
      const [path, was] = [pathOf(edit), edit.row.cells[edit.column.path]?.value ?? null];
      return write(edit.row.extraction_id, path, edit.value, {
        was,
        onError: (error) => void refuse(edit, path, error, onError),
        batch,
      });
    },
    confirm({ row, column }: Pick<CellEdit, 'row' | 'column'>, batch?: symbol): Promise<boolean> {
      look(row);
      const edit = { row, column, value: row.cells[column.path]?.value ?? null };
      const path = pathOf(edit);
      return confirm(row.extraction_id, path, {
        was: edit.value,
        onError: (error) => void refuse(edit, path, error, report),
        batch,
      });
    },
    /** Accept or reject what is proposed for a cell, as its source shows it; undefined: it shows no proposal. */
    decide({ row, column }: Pick<CellEdit, 'row' | 'column'>, accepted: boolean): Promise<boolean> | undefined {
      const shown = queries.getQueryData(extractionQuery(row.extraction_id).queryKey);
      const proposal = proposalOf(shown?.proposals ?? [], pathOf({ row, column }));
      look(row);
      if (proposal === undefined) {
        mark(row.extraction_id, '', false); // it may be decided elsewhere
        return undefined;
      }
      return decideProposals(row.extraction_id, proposal.path, [proposal], accepted);
    },
    /** Return why a decided cell still needs review; undefined if it does not. */
    stillToReview({ row, column }: Pick<CellEdit, 'row' | 'column'>): string | undefined {
      const pages = queries.getQueriesData<LoadedPage>({ queryKey: ['records', 'rows'] });
      const cell = pages
        .flatMap(([, page]) => page?.items ?? [])
        .find((one) => one.extraction_id === row.extraction_id && one.path === row.path)?.cells[column.path];
      if (cell?.status !== 'needs_review') return undefined;
      return cellStatusText(cell);
    },
  };
}

function storedValue(extraction: Extraction, path: string): RecordCell['value'] {
  const found = valueAt(extraction.extracted_fields, pathSteps(path) ?? []);
  return found === undefined || found === null || typeof found === 'object'
    ? null
    : (found as string | number | boolean);
}

/** Return a page with an extraction's current values in its rows. */
export function pageWith(page: LoadedPage, now: Extraction): LoadedPage {
  const changed = page.items.filter((row) => row.extraction_id === now.id).map(rowKey);
  if (changed.length === 0) return page;
  return {
    ...page,
    changed: [...new Set([...(page.changed ?? []), ...changed])],
    items: page.items.map((row) => (row.extraction_id === now.id ? rowWith(row, page.columns, now) : row)),
  };
}

function rowWith(row: RecordRow, columns: readonly TableColumn[], now: Extraction): RecordRow {
  // The currency is that of the document, unless its lists have their own.
  const currency = Object.values(row.cells).find((cell) => cell.currency !== null)?.currency ?? null;
  const cells = columns.map(
    ({ path, type }) => [path, cellWith(row.cells[path], cellPath(path, row.path), type, now, currency)] as const,
  );
  const isDone = row.status === 'done' || row.status === 'incomplete';
  const count = row.path === null ? now.review_count : itemCount(row.path, now);
  const status = !isDone ? row.status : now.status === 'completed' ? 'done' : 'incomplete';
  return {
    ...row,
    status,
    version: now.version,
    is_reviewed: now.reviewed_by !== null && count === 0,
    review_count: count,
    document_review_count: now.review_count,
    cells: Object.fromEntries(cells),
  };
}

/** Return how many fields of an item a person has to look at, as `private.review_counts` counts them. */
function itemCount(item: string, { statuses }: Extraction): number {
  const list = item.slice(0, item.lastIndexOf('[') + 1);
  const isOthers = (path: string) =>
    path.startsWith(list) && path !== item && !path.startsWith(`${item}.`) && !path.startsWith(`${item}[`);
  return Object.entries(statuses).filter(([path, status]) => needsPerson(status) && !isOthers(path)).length;
}

function cellWith(
  before: RecordCell | undefined,
  path: string,
  type: TableColumn['type'],
  now: Extraction,
  currency: string | null,
): RecordCell {
  const value = storedValue(now, path);
  // That the column has changed since is known to the table only, and counts until a person sets or confirms the value.
  if (before?.status === 'stale' && before.value === value && now.locks[path] === undefined) return before;
  const { status, reason } = now.statuses[path] ?? { status: 'not_written', reason: null };
  const evidence = now.evidence[path] as { state: string; page: number | null; quote: string | null } | undefined;
  return {
    path,
    status,
    reason,
    value,
    kind:
      value === null
        ? null
        : typeof value === 'number'
          ? 'number'
          : typeof value === 'boolean'
            ? 'boolean'
            : type === 'date'
              ? 'day'
              : 'text',
    currency: typeof value === 'number' ? (before?.currency ?? currency) : null,
    state: evidence?.state ?? null,
    confidence: now.confidence_scores[path] ?? null,
    is_verified: evidence?.state === 'found',
    page: evidence?.page ?? null,
    quote: evidence?.quote ?? null,
  };
}
