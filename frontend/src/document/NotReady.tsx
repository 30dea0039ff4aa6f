/** A document whose pages cannot be shown yet, or at all: what is done about it, or what one may do. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/client';
import type { DocumentInFull } from '../api/types';
import { Button } from '../shared/Button';
import { EmptyState, ErrorNotice, Notice } from '../shared/Notice';
import styles from './DocumentPage.module.css';

export function NotReady({ document }: { document: DocumentInFull }) {
  if (document.status === 'reading') {
    return (
      <div className={styles.reading} role="status">
        <progress aria-label="Reading" />
        <p>The document is being read. This takes a moment for each page.</p>
      </div>
    );
  }
  return (
    <EmptyState title="This document could not be read">
      <Notice kind="bad">{document.error}</Notice>
      {document.error_code === 'password' && <PasswordForm documentId={document.id} />}
    </EmptyState>
  );
}

function PasswordForm({ documentId }: { documentId: string }) {
  const queries = useQueryClient();
  const [password, setPassword] = useState('');
  const read = useMutation({
    mutationFn: () => api.POST('/api/documents/{document_id}/read', { params: { path: { document_id: documentId } }, body: { password } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['document', documentId] }),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        read.mutate();
      }}
    >
      {read.isError && <ErrorNotice error={read.error} />}
      <div className={styles.password}>
        <input
          type="password"
          aria-label="Password of the file"
          autoComplete="off"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          required
          maxLength={250}
        />
        <Button kind="main" type="submit" disabled={read.isPending}>
          Read it
        </Button>
      </div>
    </form>
  );
}
