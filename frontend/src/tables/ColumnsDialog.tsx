/** Changes the columns of a stack: first shows what a change means for the rows, then applies it. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api } from '../api/client';
import type { ColumnsChanged, Stack } from '../api/types';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { formatEstimate } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { columnConflict } from '../records/columnConflict';
import { ColumnsEditor, EMPTY_COLUMN, namedColumns } from '../records/ColumnsEditor';
import { refresh } from '../api/queryKeys';

export function ColumnsDialog({ stack, onClose }: { stack: Stack; onClose: () => void }) {
  const queries = useQueryClient();
  const [columns, setColumns] = useState(() => (stack.columns.length > 0 ? stack.columns : [EMPTY_COLUMN]));
  const [preview, setPreview] = useState<ColumnsChanged | null>(null);
  const send = async (isPreview: boolean) => {
    const body = { columns: namedColumns(columns), preview: isPreview };
    return (await api.put('/api/stacks/{stack_id}/columns', { path: { stack_id: stack.id }, body })) as ColumnsChanged;
  };
  /** Preview first. Without rows that follow older columns there is nothing to show: apply at once. */
  const set = useMutation({
    mutationFn: async (): Promise<ColumnsChanged | null> => {
      const shown = preview ?? (await send(true));
      if (preview === null && (shown.changes?.extractions ?? 0) > 0) return shown;
      await send(false);
      return null;
    },
    onSuccess: (shown) => {
      if (shown !== null) return setPreview(shown);
      void refresh(queries, 'stacks', 'records');
      return onClose();
    },
  });
  const changes = preview?.changes ?? null;
  // On a phone the columns fill the dialog.
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (preview !== null) end.current?.scrollIntoView({ block: 'nearest' });
  }, [preview]);
  return (
    <Dialog title={t('tables.columns')} open onClose={onClose} isWide>
      <ColumnsEditor
        columns={columns}
        onChange={(next) => {
          setColumns(next);
          setPreview(null);
        }}
      />
      {set.isError && <ErrorNotice error={set.error} />}
      {changes !== null && (
        <Notice kind="unsure">
          <p>{t('stacks.rowsOutdated', { count: changes.extractions })}</p>
          <p>
            {changes.read_again === 0
              ? t('stacks.nothingReadAgain')
              : changes.estimated_cost_usd === null
                ? t('stacks.readAgain', { count: changes.read_again })
                : t('stacks.readAgainCost', {
                    count: changes.read_again,
                    cost: formatEstimate(changes.estimated_cost_usd),
                  })}
          </p>
        </Notice>
      )}
      <div ref={end}>
        <DialogActions
          label={preview === null ? t('stacks.saveColumns') : t('stacks.applyColumns')}
          disabled={set.isPending || namedColumns(columns).length === 0 || columnConflict(columns) !== null}
          onClose={onClose}
          onConfirm={() => set.mutate()}
        />
      </div>
    </Dialog>
  );
}
