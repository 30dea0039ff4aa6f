/** A document that is still being read, or that could not be read: why, and what a person can do. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { FileWarning } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { DocumentDetails } from '../api/types';
import { Button, buttonClass } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Confirm } from '../components/ui/Confirm';
import { Input } from '../components/ui/Input';
import { ErrorNotice } from '../components/ui/Notice';
import { usePersonName } from '../session/people';
import { useCanWrite } from '../session/role';
import { codeText, readingErrorText } from '../shared/codeText';
import { formatBytes, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { refresh } from '../api/queryKeys';

interface Props {
  document: DocumentDetails;
  onDeleted?: () => void;
}

export function NotReady({ document, onDeleted }: Props) {
  const canWrite = useCanWrite();
  const queries = useQueryClient();
  const personName = usePersonName();
  const {
    id,
    status,
    filename,
    error_code: code,
    error,
    byte_size: size,
    created_by: by,
    created_at: createdAt,
  } = document;
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
  // The service's own sentence is shown if it has the page or the limit; that of the code says what to do.
  const detail = readingErrorText(code, error ?? '');
  const text =
    code === 'password'
      ? t('document.passwordNeeded')
      : /\b\d/.test(detail)
        ? detail
        : codeText('readingErrors', code, detail);
  const facts = [
    ...(size === null ? [] : [formatBytes(size)]),
    ...(by === null ? [] : [t('people.by', { person: personName(by) })]),
    formatTime(createdAt),
  ];
  return (
    <section className="mx-auto grid w-full max-w-xl content-start gap-4 px-6 pt-[12vh]">
      <span className="flex size-10 items-center justify-center rounded-lg bg-bad-bg text-bad">
        <FileWarning size={20} strokeWidth={1.5} aria-hidden="true" />
      </span>
      <div className="grid gap-1" role="alert">
        <h2 className="text-lg font-semibold">{t('document.unreadable')}</h2>
        <p className="wrap-anywhere">{text}</p>
      </div>
      <p className="text-xs text-muted-foreground">{facts.join(' · ')}</p>
      {failure !== null && <ErrorNotice error={failure} />}
      {canWrite && (
        <div className="flex flex-wrap gap-2 max-sm:[&_button]:min-h-11">
          {code === 'password' && <PasswordForm disabled={read.isPending} onRead={read.mutate} />}
          {code !== 'password' && (
            <Link to="/documents" className={buttonClass({ kind: 'main' })}>
              {t('document.uploadAgain')}
            </Link>
          )}
          {onDeleted !== undefined && (
            <Confirm
              label={t('document.deleteFile')}
              question={t('common.deleteQuestion', { name: visibleText(filename) })}
              onConfirm={() => remove.mutate()}
            />
          )}
        </div>
      )}
    </section>
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
