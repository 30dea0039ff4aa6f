/** What can be done with the selected rows: mark as reviewed, tag, take out of the stack, export. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api, fetchFile } from '../api/client';
import type { RecordRow } from '../api/types';
import { tagsQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import { Button } from '../shared/Button';
import { Dialog } from '../shared/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { Menu, MenuItem } from '../shared/Menu';
import { errorMessage } from '../shared/Notice';
import { saveFile } from '../shared/saveFile';
import { toast } from '../shared/Toasts';
import { isRead } from './cellStatus';
import { ExportMenu } from './TableExport';
import { exportAddress, type TableRequest } from './tableQueries';
import styles from './Tables.module.css';
import type { Selection } from './useSelection';

const AT_ONCE = 4;

interface Props {
  selection: Selection;
  request: TableRequest;
  /** The name of an exported file. */
  name: string;
  /** Called when the bar goes, with the focus in it. */
  onDone: () => void;
}

export function SelectionBar({ selection, request, name, onDone }: Props) {
  const stackId = 'stack' in request.of ? request.of.stack : undefined;
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const tags = useQuery({ ...tagsQuery, enabled: selection.size > 0 });
  const [failures, setFailures] = useState<readonly string[]>([]);
  const [done, setDone] = useState(0);

  const reload = () => {
    for (const queryKey of [['records'], ['stacks'], ['documents'], ['extractions'], ['extraction']]) void queries.invalidateQueries({ queryKey });
  };
  const run = useMutation({
    mutationFn: async ({ rows, act }: { rows: readonly RecordRow[]; act: (row: RecordRow) => Promise<unknown>; undo?: () => Promise<unknown> }) => {
      const failed: string[] = [];
      const waiting = [...rows];
      setDone(0);
      const work = async () => {
        for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
          const { filename } = row;
          await act(row).catch((error: unknown) => failed.push(`${visibleText(filename)}: ${errorMessage(error)}`));
          setDone((before) => before + 1);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      return failed;
    },
    onSuccess: (failed, { rows, undo }) => {
      setFailures(failed);
      const act = () => {
        onDone();
        void undo?.().then(reload, (error: unknown) => toast(errorMessage(error), { urgent: true }));
      };
      if (failed.length < rows.length) toast(t('tables.changedRows', { count: rows.length - failed.length }), { seconds: 12, ...(undo && { action: { label: t('common.undo'), act } }) });
      reload();
      selection.clear();
      if (failed.length === 0) onDone();
    },
  });
  /** Each extraction and document once, also if several of its items are selected. */
  const once = (key: 'extraction_id' | 'document_id') => [...new Map(selection.rows.map((row) => [row[key], row])).values()];

  const removeRows = (stack: string) => {
    const rows = once('document_id');
    const body = { document_ids: rows.map((row) => row.document_id) };
    const undo = () => api.POST('/api/stacks/{stack_id}/documents', { params: { path: { stack_id: stack } }, body });
    run.mutate({ rows, act: (row) => removeFromStack(stack, row.document_id), undo });
  };

  const save = useMutation({
    mutationFn: async (format: string) => {
      const rows = selection.rows.map(({ document_id, path }) => ({ document_id, path }));
      // In the order of the table, whatever its filter: an edited row may no longer match.
      const { of, list, sort, descending } = request;
      const view = { of, ...(list !== undefined && { list }), ...(sort !== undefined && { sort }), ...(descending && { descending }) };
      saveFile(await fetchFile(exportAddress(view, format), { body: { rows } }), `${name}.${format}`);
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });

  return (
    <>
      {selection.size > 0 && (
        <div className={styles.selection} role="toolbar" aria-label={t('tables.selectedRows')}>
          <span role="status">{run.isPending ? t('tables.saving', { done, count: run.variables.rows.length }) : t('tables.selected', { count: selection.size })}</span>
          {canWrite && (
            <>
              <Button disabled={run.isPending} onClick={() => run.mutate({ rows: once('extraction_id').filter((row) => isRead(row) && !row.is_reviewed), act: markReviewed })}>
                <Icon name="check" /> {t('tables.markReviewed')}
              </Button>
              {(tags.data?.items.length ?? 0) > 0 && (
                <Menu
                  align="start"
                  trigger={
                    <Button disabled={run.isPending}>
                      <Icon name="tag" /> {t('documents.tag')}
                    </Button>
                  }
                >
                  {tags.data?.items.map((tag) => (
                    <MenuItem key={tag.id} onChoose={() => run.mutate({ rows: once('document_id'), act: (row) => addTag(row.document_id, tag.id) })}>
                      <span className={styles.dot} style={{ background: tag.color }} /> {visibleText(tag.name)}
                    </MenuItem>
                  ))}
                </Menu>
              )}
            </>
          )}
          {canWrite && stackId !== undefined && (
            <Button disabled={run.isPending} onClick={() => removeRows(stackId)}>
              <Icon name="minus" /> {t('stacks.remove')}
            </Button>
          )}
          <ExportMenu isBusy={save.isPending} align="start" onChoose={save.mutate} />
          <Button kind="quiet" label={t('tables.clearSelection')} onClick={() => (selection.clear(), onDone())}>
            <Icon name="cross" />
          </Button>
        </div>
      )}
      <Dialog title={t('tables.failedRows', { count: failures.length })} open={failures.length > 0} onClose={() => setFailures([])}>
        <ul className={styles.refused}>
          {failures.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      </Dialog>
    </>
  );
}

/** At the version that the row shows: values changed since then have not been seen. */
async function markReviewed(row: RecordRow) {
  if (!isRead(row)) return;
  const { extraction_id: id, version } = row;
  const params = { path: { extraction_id: id }, header: { 'if-match': `"${version}"` } };
  await api.POST('/api/extractions/{extraction_id}/complete', { params });
}

async function addTag(id: string, tagId: string) {
  const params = { path: { document_id: id } };
  const { tags } = await dataOf(api.GET('/api/documents/{document_id}', { params }));
  if (!tags.some((tag) => tag.id === tagId)) await api.PATCH('/api/documents/{document_id}', { params, body: { tags: [...tags.map((tag) => tag.id), tagId] } });
}

async function removeFromStack(stackId: string, documentId: string) {
  await api.DELETE('/api/stacks/{stack_id}/documents/{document_id}', { params: { path: { stack_id: stackId, document_id: documentId } } });
}
