/** A document that is still being read, or that could not be read. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/client';
import type { DocumentDetails } from '../api/types';
import { Button } from '../components/ui/Button';
import { readingErrorText } from '../shared/codeText';
import { t } from '../shared/i18n';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import styles from './DocumentPage.module.css';

export function NotReady({ document }: { document: DocumentDetails }) {
  if (document.status === 'reading') {
    return (
      <div className={styles.reading} role="status">
        <progress aria-label={t('document.readingProgress')} />
        <p>{t('document.reading')}</p>
      </div>
    );
  }
  return (
    <EmptyState title={t('document.unreadable')}>
      <Notice kind="bad">
        {document.error_code === 'password'
          ? t('document.passwordNeeded')
          : readingErrorText(document.error_code, document.error ?? '')}
      </Notice>
      {document.error_code === 'password' && <PasswordForm documentId={document.id} />}
    </EmptyState>
  );
}

function PasswordForm({ documentId }: { documentId: string }) {
  const queries = useQueryClient();
  const [password, setPassword] = useState('');
  const read = useMutation({
    mutationFn: () =>
      api.POST('/api/documents/{document_id}/read', {
        params: { path: { document_id: documentId } },
        body: { password },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['document', documentId] }),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        read.mutate();
      }}>
      {read.isError && <ErrorNotice error={read.error} />}
      <div className={styles.password}>
        <input
          type="password"
          aria-label={t('document.password')}
          autoComplete="off"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          required
          maxLength={250}
        />
        <Button kind="main" type="submit" disabled={read.isPending}>
          {t('document.unlock')}
        </Button>
      </div>
    </form>
  );
}
