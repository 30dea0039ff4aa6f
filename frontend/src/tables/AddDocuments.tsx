/** Adds documents to a stack: uploads, or documents of the organisation. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { FileText, Plus, Upload } from 'lucide-react';
import { useRef, useState } from 'react';
import { api } from '../api/client';
import { upload } from '../documents/uploads';
import { Button } from '../components/ui/Button';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { sortAgain } from '../records/tableQueries';
import { DocumentPicker } from './DocumentPicker';
import { refresh } from '../api/queryKeys';

export function AddDocuments({ stackId }: { stackId: string }) {
  const queries = useQueryClient();
  const chooser = useRef<HTMLInputElement>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const add = useMutation({
    mutationFn: (ids: readonly string[]) =>
      api.post('/api/stacks/{stack_id}/documents', { path: { stack_id: stackId }, body: { document_ids: [...ids] } }),
    onSuccess: ({ added }) => {
      setChosen(null);
      toast(t('stacks.added', { count: added }));
      void refresh(queries, 'stacks', 'records');
      void sortAgain(queries);
    },
  });
  return (
    <>
      <Menu
        trigger={
          <Button icon={Plus}>
            <span className="max-lg:sr-only">{t('stacks.addDocuments')}</span>
          </Button>
        }>
        <MenuItem onChoose={() => chooser.current?.click()}>
          <Upload size={16} aria-hidden="true" /> {t('stacks.uploadFiles')}
        </MenuItem>
        <MenuItem onChoose={() => setChosen(new Set())}>
          <FileText size={16} aria-hidden="true" /> {t('stacks.chooseDocuments')}
        </MenuItem>
      </Menu>
      <input
        ref={chooser}
        type="file"
        multiple
        hidden
        aria-label={t('documents.files')}
        onChange={({ target }) => {
          upload(target.files ?? [], stackId);
          target.value = '';
        }}
      />
      {chosen !== null && (
        <Dialog title={t('stacks.chooseDocuments')} open onClose={() => setChosen(null)}>
          <DocumentPicker chosen={chosen} onChoose={setChosen} />
          {add.isError && <ErrorNotice error={add.error} />}
          <DialogActions
            label={t('stacks.addChosen', { count: chosen.size })}
            disabled={chosen.size === 0 || add.isPending}
            onClose={() => setChosen(null)}
            onConfirm={() => add.mutate([...chosen])}
          />
        </Dialog>
      )}
    </>
  );
}
