/** Renames or deletes a stack. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api } from '../api/client';
import type { Stack } from '../api/types';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import styles from './Stacks.module.css';

export function StackMenu({ stack }: { stack: Stack }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<'rename' | 'delete' | null>(null);
  const [name, setName] = useState('');
  const params = { path: { stack_id: stack.id } };
  const renamed = () => queries.invalidateQueries({ queryKey: ['stacks'] });
  const rename = useMutation({
    mutationFn: () => api.PATCH('/api/stacks/{stack_id}', { params, body: { name: name.trim() } }),
    onSuccess: () => {
      setAsked(null);
      return renamed();
    },
  });
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/stacks/{stack_id}', { params }),
    onSuccess: async () => {
      await navigate({ to: '/stacks' });
      await queries.invalidateQueries({ queryKey: ['stacks', 'list'] });
    },
  });
  return (
    <>
      <Menu
        trigger={
          <Button kind="quiet" label={t('stacks.actions')}>
            <Icon name="more" />
          </Button>
        }>
        <MenuItem
          onChoose={() => {
            setName(stack.name);
            setAsked('rename');
          }}>
          <Icon name="pencil" /> {t('stacks.rename')}
        </MenuItem>
        <MenuItem onChoose={() => setAsked('delete')}>
          <Icon name="bin" /> {t('common.delete')}
        </MenuItem>
      </Menu>
      <Dialog title={t('stacks.rename')} open={asked === 'rename'} onClose={() => setAsked(null)}>
        <form
          className={styles.form}
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() !== '' && !rename.isPending) rename.mutate();
          }}>
          <input
            aria-label={t('stacks.name')}
            value={name}
            maxLength={200}
            autoFocus
            onChange={({ target }) => setName(target.value)}
          />
          {rename.isError && <ErrorNotice error={rename.error} />}
          <div className="flex flex-wrap justify-end gap-2">
            <Button onClick={() => setAsked(null)}>{t('common.cancel')}</Button>
            <Button kind="main" type="submit" disabled={rename.isPending || name.trim() === ''}>
              {t('common.save')}
            </Button>
          </div>
        </form>
      </Dialog>
      <Dialog
        title={t('stacks.deleteQuestion', { name: visibleText(stack.name) })}
        open={asked === 'delete'}
        onClose={() => setAsked(null)}>
        {remove.isError && <ErrorNotice error={remove.error} />}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={() => setAsked(null)}>{t('common.cancel')}</Button>
          <Button danger disabled={remove.isPending} onClick={() => remove.mutate()}>
            {t('common.delete')}
          </Button>
        </div>
      </Dialog>
    </>
  );
}
