/** What can be done with the selected rows: mark as reviewed, tag, read again, take out of the stack, export. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { CircleCheck, Minus, RotateCw, Tag, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { atVersion } from '../api/atVersion';
import { api, fetchFile } from '../api/client';
import type { Extraction, ReadRow, RecordRow, TableColumn } from '../api/types';
import { needsPerson, openFields } from '../fields/fieldStatus';
import { withdrawReview } from '../document/MarkReviewed';
import { deleteDocuments } from '../documents/deletions';
import { tagsQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import { actOnEach } from '../shared/actOnEach';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { formatEstimate, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { errorMessage } from '../components/ui/Notice';
import { ReviewAnyway } from '../shared/ReviewAnyway';
import { saveFile } from '../shared/saveFile';
import { SelectionToolbar } from '../components/ui/SelectionToolbar';
import { stackQuery } from '../records/stackQueries';
import { toast } from '../components/ui/Toast';
import { canReadAgain, isRead } from './cellStatus';
import { columnLabel } from './gridColumns';
import { readAgain } from './readAgain';
import { ExportMenu } from './TableExport';
import { exportAddress, sortAgain, type TableRequest } from '../records/tableQueries';
import type { Selection } from './useSelection';
import { refresh } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

interface Props {
  selection: Selection;
  columns: readonly TableColumn[];
  request: TableRequest;
  stackId: string | null;
  /** The name of an exported file. */
  name: string;
  /** The width of what is beside the rows, in pixels. */
  beside: number;
  /** Lines of sums below it. */
  above: number;
  /** Called when the bar goes, with the focus in it. */
  onDone: () => void;
}

export function SelectionBar({ selection, columns, request, stackId, name, beside, above, onDone }: Props) {
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const tags = useQuery({ ...tagsQuery, enabled: selection.size > 0 });
  // What a row of the table cost on average, from the page that shows it.
  const { cost_usd: spent = null, done: read = 0 } =
    useQuery({ ...stackQuery(stackId ?? ''), enabled: false }).data?.progress ?? {};
  const cost = spent === null || spent === 0 || read === 0 ? null : spent / read;
  const [failures, setFailures] = useState<readonly string[]>([]);
  const [done, setDone] = useState(0);

  const reload = () => {
    void refresh(queries, 'records', 'stacks', 'documents', 'extractions', 'extraction');
    void sortAgain(queries);
  };
  /** Act on each row. Return why some failed. */
  const each = async (rows: readonly RecordRow[], act: (row: RecordRow) => Promise<unknown>) => {
    const { failed } = await actOnEach(rows, act, setDone);
    return failed.map(({ item, error }) => `${visibleText(item.filename)}: ${errorMessage(error)}`);
  };
  const run = useMutation({
    mutationFn: ({
      rows,
      act,
    }: {
      rows: readonly RecordRow[];
      act: (row: RecordRow) => Promise<unknown>;
      undo?: () => Promise<unknown>;
      isReading?: true;
    }) => each(rows, act),
    onSuccess: (failed, { rows, undo, isReading }) => {
      setFailures(failed);
      const act = () => {
        onDone();
        void undo?.().then(reload, (error: unknown) => toast(errorMessage(error), { urgent: true }));
      };
      if (failed.length < rows.length)
        toast(t(isReading ? 'tables.rowsReadAgain' : 'tables.changedRows', { count: rows.length - failed.length }), {
          seconds: 12,
          ...(undo && { action: { label: t('common.undo'), act } }),
        });
      reload();
      selection.clear();
      if (failed.length === 0) onDone();
    },
  });
  /** Each extraction and document once, also if several of its items are selected. */
  const once = (key: 'extraction_id' | 'document_id') => [
    ...new Map(selection.rows.map((row) => [row[key], row])).values(),
  ];

  const clear = () => {
    selection.clear();
    onDone();
  };

  // A proposal must be decided first.
  const isProposed = (row: RecordRow) => Object.values(row.cells).some(({ reason }) => reason === 'proposal');
  const unreviewed = once('extraction_id').filter(
    (row) => isRead(row) && (!row.is_reviewed || row.document_review_count > 0),
  );
  const proposed = unreviewed.filter(isProposed).length;
  const open = unreviewed.filter((row) => row.document_review_count > 0).length;
  const [isAsking, setAsking] = useState(false);
  const markRows = () => {
    const before = new Map<RecordRow, Extraction['status']>();
    const act = async (row: RecordRow) => isRead(row) && before.set(row, await markReviewed(row));
    const undo = async () =>
      setFailures(
        await each(
          [...before.keys()],
          async (row) =>
            isRead(row) && withdrawReview({ id: row.extraction_id, version: row.version }, before.get(row)!),
        ),
      );
    run.mutate({ rows: unreviewed.filter((row) => !isProposed(row)), act, undo });
  };
  const readable = once('extraction_id').filter(canReadAgain);
  const removeRows = (stack: string) => {
    const rows = once('document_id');
    const body = { document_ids: rows.map((row) => row.document_id) };
    const undo = () => api.post('/api/stacks/{stack_id}/documents', { path: { stack_id: stack }, body });
    run.mutate({ rows, act: (row) => removeFromStack(stack, row.document_id), undo });
  };

  const save = useChange([], async (format: string) => {
    const rows = selection.rows.map(({ document_id, path }) => ({ document_id, path }));
    // In the order of the table, whatever its filter: an edited row may no longer match.
    const { table, list, sort, descending } = request;
    const view = {
      table,
      ...(list !== undefined && { list }),
      ...(sort !== undefined && { sort }),
      ...(descending && { descending }),
    };
    saveFile(await fetchFile(exportAddress(view, format), { body: { rows } }), `${name}.${format}`);
  });

  return (
    <>
      {selection.size > 0 && (
        <SelectionToolbar
          className="absolute -translate-x-1/2"
          count={selection.size}
          progress={run.isPending ? t('tables.saving', { done, count: run.variables.rows.length }) : undefined}
          onClear={clear}
          style={{
            bottom: `calc(${above + 1} * 1.375rem + 1.5rem)`,
            left: `calc((100% - ${beside}px) / 2)`,
            maxWidth: `calc(100% - ${beside}px - 1rem)`,
          }}>
          {canWrite && (
            <>
              <Button
                kind="quiet"
                icon={CircleCheck}
                className={open > 0 ? 'text-muted-foreground' : undefined}
                disabled={run.isPending || unreviewed.length === 0}
                onClick={() => (open > 0 ? setAsking(true) : markRows())}>
                {t('document.markReviewed')}
              </Button>
              {(tags.data?.items.length ?? 0) > 0 && (
                <Menu
                  align="start"
                  trigger={<Button kind="quiet" icon={Tag} label={t('documents.tag')} disabled={run.isPending} />}>
                  {tags.data?.items.map((tag) => (
                    <MenuItem
                      key={tag.id}
                      onChoose={() =>
                        run.mutate({ rows: once('document_id'), act: (row) => addTag(row.document_id, tag.id) })
                      }>
                      <span className="size-2 rounded-full" style={{ background: tag.color }} /> {visibleText(tag.name)}
                    </MenuItem>
                  ))}
                </Menu>
              )}
            </>
          )}
          {canWrite && stackId !== null && (
            <>
              <Button
                kind="quiet"
                icon={RotateCw}
                disabled={run.isPending || readable.length === 0}
                onClick={() =>
                  run.mutate({
                    rows: readable,
                    act: async (row) => canReadAgain(row) && readAgain(row, readable.length > 1),
                    isReading: true,
                  })
                }>
                {cost === null || readable.length === 0
                  ? t('tables.readAgain')
                  : t('common.selection.readAgain', { cost: formatEstimate(cost * readable.length) })}
              </Button>
              <Button kind="quiet" icon={Minus} disabled={run.isPending} onClick={() => removeRows(stackId)}>
                {t('stacks.remove')}
              </Button>
            </>
          )}
          {canWrite && (
            <Button
              kind="quiet"
              danger
              icon={Trash2}
              label={t('common.delete')}
              disabled={run.isPending}
              onClick={() => {
                deleteDocuments(
                  once('document_id').map((row) => ({ id: row.document_id, filename: row.filename })),
                  reload,
                );
                clear();
              }}
            />
          )}
          <ExportMenu isIcon isBusy={save.isPending} align="start" onChoose={save.mutate} />
        </SelectionToolbar>
      )}
      {isAsking && (
        <ReviewAnyway
          question={t('tables.markOpen', { count: open })}
          open={[
            ...openCells(unreviewed, selection.rows, columns, request.list),
            ...(proposed > 0 ? [t('tables.proposedRows', { count: proposed })] : []),
          ]}
          isNothing={proposed === unreviewed.length}
          onConfirm={markRows}
          onClose={() => setAsking(false)}
        />
      )}
      <Dialog
        title={t('tables.failedRows', { count: failures.length })}
        open={failures.length > 0}
        onClose={() => setFailures([])}>
        <ul className="grid max-h-[50vh] gap-1 overflow-auto wrap-anywhere">
          {failures.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      </Dialog>
    </>
  );
}

/** Return lines about the fields of rows that a person has to look at: those of each column, and how many are in none. */
function openCells(
  rows: readonly RecordRow[],
  selected: readonly RecordRow[],
  columns: readonly TableColumn[],
  list: string | undefined,
): string[] {
  const ids = new Set(rows.map((row) => row.extraction_id));
  const all = selected.filter((row) => ids.has(row.extraction_id));
  // The fields of a document are those of each of its items, too.
  const cells = new Map(
    all.flatMap((row) =>
      columns.flatMap((column) => {
        const cell = row.cells[column.path];
        return cell === undefined
          ? []
          : [[`${row.extraction_id} ${cell.path}`, { ...cell, label: columnLabel(column, list) }] as const];
      }),
    ),
  );
  const shown = [...cells.values()].filter(needsPerson);
  const others = rows.reduce((sum, row) => sum + row.document_review_count, 0) - shown.length;
  return [...openFields(shown), ...(others > 0 ? [t('tables.otherFields', { count: others })] : [])];
}

/** At the version that the row shows: values changed since then have not been seen. Return the status before. */
async function markReviewed({ extraction_id: id, version, status }: ReadRow): Promise<Extraction['status']> {
  const at = atVersion(id, version);
  const before =
    status === 'done'
      ? 'completed'
      : ((await api.get('/api/extractions/{extraction_id}', { path: at.path })) as Extraction).status;
  await api.post('/api/extractions/{extraction_id}/complete', at);
  return before;
}

async function addTag(id: string, tagId: string) {
  const path = { document_id: id };
  const { tags } = await api.get('/api/documents/{document_id}', { path });
  if (!tags.some((tag) => tag.id === tagId))
    await api.patch('/api/documents/{document_id}', { path, body: { tags: [...tags.map((tag) => tag.id), tagId] } });
}

async function removeFromStack(stackId: string, documentId: string) {
  await api.delete('/api/stacks/{stack_id}/documents/{document_id}', {
    path: { stack_id: stackId, document_id: documentId },
  });
}
