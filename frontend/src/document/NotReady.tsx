/** A document that is still being read, or that could not be read: why, and what a person can do. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { FileWarning } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { DocumentDetails } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Confirm } from '../components/ui/Confirm';
import { EmptyState } from '../components/ui/EmptyState';
import { Input } from '../components/ui/Input';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { useCanWrite } from '../session/role';
import { readingErrorText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { refresh } from '../api/queryKeys';

interface Props {
  document: DocumentDetails;
  onDeleted?: () => void;
}

export function NotReady({ document, onDeleted }: Props) {
  const canWrite = useCanWrite();
  const queries = useQueryClient();
  const { id, status, filename, error_code: code, error } = document;
  const params = { path: { document_id: id } };
  const read = useMutation({
    mutationFn: (password: string) => api.post('/api/documents/{document_id}/read', { ...params, body: { password } }),
    onSuccess: () => refresh(queries, ['document', id]),
  });
  const remove = useMutation({
    mutationFn: () => api.delete('/api/documents/{document_id}', params),
    onSuccess: async () => {
      onDeleted?.();
      await refresh(queries, 'documents');
    },
  });
  if (status === 'reading') {
    return (
      <div className="mx-auto mt-[20vh] grid justify-items-center gap-3 text-muted-foreground" role="status">
        <progress aria-label={t('document.readingProgress')} />
        <p>{t('document.reading')}</p>
      </div>
    );
  }
  const failure = read.error ?? remove.error;
  return (
    <EmptyState icon={FileWarning} title={t('document.unreadable')}>
      <Notice kind="bad">
        {code === 'password' ? t('document.passwordNeeded') : readingErrorText(code, error ?? '')}
      </Notice>
      {failure !== null && <ErrorNotice error={failure} />}
      {canWrite && (
        <div className="flex flex-wrap justify-center gap-2 max-sm:[&_button]:min-h-11">
          {code === 'password' && <PasswordForm disabled={read.isPending} onRead={read.mutate} />}
          {onDeleted !== undefined && (
            <Confirm
              label={t('common.delete')}
              question={t('common.deleteQuestion', { name: visibleText(filename) })}
              onConfirm={() => remove.mutate()}
            />
          )}
        </div>
      )}
    </EmptyState>
  );
}

interface PasswordProps {
  disabled: boolean;
  onRead: (password: string) => void;
}

function PasswordForm({ disabled, onRead }: PasswordProps) {
  const [password, setPassword] = useState('');
  return (
    <Form className="flex gap-2" onSubmit={() => onRead(password)}>
      <Input
        type="password"
        aria-label={t('document.password')}
        autoComplete="off"
        value={password}
        onValueChange={setPassword}
        required
        maxLength={250}
      />
      <Button kind="main" size="md" type="submit" disabled={disabled}>
        {t('document.unlock')}
      </Button>
    </Form>
  );
}
