/** What can be done with the table of a stack as a whole. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { CircleHelp, Columns3, Ellipsis, History, MessageSquareText, Pencil, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { Stack } from '../api/types';
import { Button } from '../components/ui/Button';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Menu, MenuItem, MenuSeparator } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import { refresh } from '../api/queryKeys';
import { NameForm } from '../shared/NameForm';

interface Props {
  stack: Stack;
  canWrite: boolean;
  /** A run changes the table. */
  isRunning: boolean;
  onShow: (dialog: 'changes' | 'columns' | 'words') => void;
}

export function TableMenu({ stack, canWrite, isRunning, onShow }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<'rename' | 'delete' | null>(null);
  const params = { path: { stack_id: stack.id } };
  const rename = useMutation({
    mutationFn: (name: string) => api.patch('/api/stacks/{stack_id}', { ...params, body: { name } }),
    onSuccess: () => {
      setAsked(null);
      return refresh(queries, 'stacks', ['records', 'tables']);
    },
  });
  const remove = useMutation({
    mutationFn: () => api.delete('/api/stacks/{stack_id}', params),
    onSuccess: async () => {
      await navigate({ to: '/tables' });
      await refresh(queries, ['stacks', 'list'], ['records', 'tables']);
    },
  });
  return (
    <>
      <Menu trigger={<Button kind="quiet" icon={Ellipsis} label={t('stacks.actions')} />}>
        {canWrite && (
          <>
            <MenuItem icon={Columns3} disabled={isRunning} onChoose={() => onShow('columns')}>
              {t('stacks.columns')}
            </MenuItem>
            <MenuItem icon={MessageSquareText} disabled={isRunning} onChoose={() => onShow('words')}>
              {t('stacks.changeInWords')}
            </MenuItem>
            <MenuItem icon={CircleHelp} onChoose={() => void navigate({ to: '/ask', search: { stack: stack.id } })}>
              {t('stacks.ask')}
            </MenuItem>
          </>
        )}
        <MenuItem icon={History} disabled={stack.run === null || isRunning} onChoose={() => onShow('changes')}>
          {t('stacks.changes')}
        </MenuItem>
        {canWrite && (
          <>
            <MenuSeparator />
            <MenuItem icon={Pencil} onChoose={() => setAsked('rename')}>
              {t('stacks.rename')}
            </MenuItem>
            <MenuItem icon={Trash2} danger onChoose={() => setAsked('delete')}>
              {t('common.delete')}
            </MenuItem>
          </>
        )}
      </Menu>
      <Dialog title={t('stacks.rename')} open={asked === 'rename'} onClose={() => setAsked(null)}>
        <NameForm
          name={stack.name}
          field={t('stacks.name')}
          label={t('common.save')}
          saving={rename}
          onClose={() => setAsked(null)}
        />
      </Dialog>
      <Dialog
        title={t('stacks.deleteQuestion', { name: visibleText(stack.name) })}
        open={asked === 'delete'}
        onClose={() => setAsked(null)}>
        {remove.isError && <ErrorNotice error={remove.error} />}
        <DialogActions
          danger
          label={t('common.delete')}
          disabled={remove.isPending}
          onClose={() => setAsked(null)}
          onConfirm={() => remove.mutate()}
        />
      </Dialog>
    </>
  );
}
