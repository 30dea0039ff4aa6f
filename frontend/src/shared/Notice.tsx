/** Notices: a remark, a warning, an error with a way to try again, or an empty state. */

import type { ReactNode } from 'react';
import { ApiError } from '../api/client';
import { Button } from './Button';
import { t } from './i18n';
import styles from './Notice.module.css';
import { Icon } from './Icon';

export function Notice({ kind = 'plain', children }: { kind?: 'plain' | 'unsure' | 'bad'; children: ReactNode }) {
  return (
    <div
      className={`${styles.notice} ${kind === 'plain' ? '' : styles[kind]}`}
      role={kind === 'bad' ? 'alert' : undefined}>
      {kind !== 'plain' && <Icon name="warning" />}
      <div className={styles.body}>{children}</div>
    </div>
  );
}

/** Return an error's text in the person's language if the page has one for its code, else as the service wrote it. */
export function errorMessage(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return t('shell.unreachable');
}

export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  return (
    <Notice kind="bad">
      <p>{errorMessage(error)}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>{t('common.tryAgain')}</Button>}
    </Notice>
  );
}

/** An error of the page itself. */
export function PageError({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <Notice kind="bad">
      <p>{t('shell.pageError')}</p>
      <p className="muted">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={onRetry}>{t('common.tryAgain')}</Button>{' '}
      <Button onClick={() => location.reload()}>{t('common.reload')}</Button>
    </Notice>
  );
}

export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
