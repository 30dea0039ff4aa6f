/** Creates a stack: its name, its columns or a suggestion by the agent, and its first documents. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { FileText, Upload } from 'lucide-react';
import { api } from '../api/client';
import { upload } from '../documents/uploads';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import { columnConflict } from '../records/columnConflict';
import { ColumnsEditor, EMPTY_COLUMN, namedColumns } from '../records/ColumnsEditor';
import { DocumentPicker } from './DocumentPicker';
import { refresh } from '../api/queryKeys';

export function NewTableDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState('');
  const [isSuggested, setSuggested] = useState(true);
  const [columns, setColumns] = useState([EMPTY_COLUMN]);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isPicking, setPicking] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const create = useMutation({
    mutationFn: () => {
      const named = namedColumns(columns);
      const body = {
        name: name.trim(),
        document_ids: [...chosen],
        ...(!isSuggested && named.length > 0 && { columns: named }),
      };
      return api.post('/api/stacks', { body });
    },
    onSuccess: ({ id }) => {
      upload(files, id);
      void refresh(queries, 'stacks');
      void refresh(queries, ['records', 'tables']);
      void navigate({ to: '/tables/$tableId', params: { tableId: id } });
    },
  });
  const canCreate = name.trim() !== '' && !create.isPending && (isSuggested || columnConflict(columns) === null);
  return (
    <Dialog title={t('stacks.new')} open onClose={onClose} isWide>
      <Form
        className="grid gap-3 [&_fieldset]:grid [&_fieldset]:gap-2 [&_legend]:mb-1 [&_legend]:font-semibold"
        onSubmit={() => {
          if (canCreate) create.mutate();
        }}>
        <label className="grid gap-1">
          <span>{t('stacks.name')}</span>
          <input
            value={name}
            maxLength={200}
            autoFocus
            required
            placeholder={t('stacks.nameHint')}
            onChange={({ target }) => setName(target.value)}
          />
        </label>
        <fieldset>
          <legend>{t('tables.columns')}</legend>
          <label>
            <input type="radio" name="columns" checked={isSuggested} onChange={() => setSuggested(true)} />{' '}
            {t('stacks.suggestColumns')}
          </label>
          <label>
            <input type="radio" name="columns" checked={!isSuggested} onChange={() => setSuggested(false)} />{' '}
            {t('stacks.defineColumns')}
          </label>
          {!isSuggested && <ColumnsEditor columns={columns} onChange={setColumns} />}
        </fieldset>
        <fieldset>
          <legend>{t('areas.documents')}</legend>
          <div className="flex flex-wrap items-center gap-2">
            <Button onClick={() => chooser.current?.click()}>
              <Upload size={16} aria-hidden="true" /> {t('stacks.uploadFiles')}
            </Button>
            <Button aria-expanded={isPicking} onClick={() => setPicking(!isPicking)}>
              <FileText size={16} aria-hidden="true" /> {t('stacks.chooseDocuments')}
            </Button>
            {files.length + chosen.size > 0 && (
              <span className="muted">{t('common.documents', { count: files.length + chosen.size })}</span>
            )}
          </div>
          <input
            ref={chooser}
            type="file"
            multiple
            hidden
            aria-label={t('documents.files')}
            onChange={({ target }) => setFiles([...(target.files ?? [])])}
          />
          {isPicking && <DocumentPicker chosen={chosen} onChoose={setChosen} />}
        </fieldset>
        {create.isError && <ErrorNotice error={create.error} />}
        <DialogActions label={t('stacks.create')} disabled={!canCreate} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
