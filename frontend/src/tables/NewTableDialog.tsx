/** Creates a stack: its name, its columns or a suggestion by the agent, and its first documents. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { FileText, Upload } from 'lucide-react';
import { api } from '../api/client';
import { upload } from '../documents/uploads';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { stackQuery } from '../records/stackQueries';
import { tablesQuery } from '../records/tablesQuery';
import { visibleText } from '../shared/format';
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
  const [source, setSource] = useState<'suggest' | 'own' | `as ${string}`>('suggest');
  const isOwn = source === 'own';
  const tables = (useQuery(tablesQuery).data ?? []).filter((one) => one.stack_id !== null);
  const [columns, setColumns] = useState([EMPTY_COLUMN]);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isPicking, setPicking] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const create = useMutation({
    mutationFn: async () => {
      const other = source.startsWith('as ') ? await queries.fetchQuery(stackQuery(source.slice(3))) : undefined;
      const named = other?.columns ?? (isOwn ? namedColumns(columns) : []);
      const body = { name: name.trim(), document_ids: [...chosen], ...(named.length > 0 && { columns: named }) };
      return api.post('/api/stacks', { body });
    },
    onSuccess: ({ id }) => {
      upload(files, id);
      void refresh(queries, 'stacks');
      void refresh(queries, ['records', 'tables']);
      void navigate({ to: '/tables/$tableId', params: { tableId: id } });
    },
  });
  const canCreate = name.trim() !== '' && !create.isPending && (!isOwn || columnConflict(columns) === null);
  return (
    <Dialog title={t('stacks.new')} open onClose={onClose} isWide={isOwn}>
      <Form
        className="grid gap-3 [&_fieldset]:grid [&_fieldset]:gap-2 [&_legend]:mb-1 [&_legend]:font-semibold"
        onSubmit={() => {
          if (canCreate) create.mutate();
        }}>
        <Field label={t('stacks.name')}>
          <Input
            value={name}
            maxLength={200}
            autoFocus
            required
            placeholder={t('stacks.nameHint')}
            onChange={({ target }) => setName(target.value)}
          />
        </Field>
        <Field label={t('tables.columns')}>
          <Select
            value={source}
            options={[
              { value: 'suggest', label: t('stacks.suggestColumns') },
              { value: 'own', label: t('stacks.defineColumns') },
              ...tables.map((one) => ({
                value: `as ${one.id}` as const,
                label: t('stacks.columnsAs', { name: visibleText(one.name) }),
              })),
            ]}
            onChange={setSource}
          />
        </Field>
        {isOwn && <ColumnsEditor columns={columns} onChange={setColumns} />}
        <fieldset>
          <legend>{t('areas.documents')}</legend>
          <div
            className="flex flex-wrap items-center justify-center gap-2 rounded-lg border border-dashed border-input bg-sidebar p-4"
            onDragOver={(event) => event.preventDefault()}
            onDrop={(event) => {
              event.preventDefault();
              event.stopPropagation(); // else they are added without the table
              setFiles([...files, ...event.dataTransfer.files]);
            }}>
            <Button icon={Upload} onClick={() => chooser.current?.click()}>
              {t('stacks.uploadFiles')}
            </Button>
            <Button icon={FileText} aria-expanded={isPicking} onClick={() => setPicking(!isPicking)}>
              {t('stacks.chooseDocuments')}
            </Button>
            <p className="w-full text-center text-xs text-muted-foreground" role="status">
              {files.length + chosen.size > 0
                ? t('common.documents', { count: files.length + chosen.size })
                : t('stacks.dropFiles')}
            </p>
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
