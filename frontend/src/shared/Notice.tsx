/** What a person should know here: a remark, a warning, what failed and what to do, or why there is nothing yet. */

import type { ReactNode } from 'react';
import { ApiError } from '../api/client';
import { Button } from './Button';
import styles from './Notice.module.css';
import { Icon } from './Icon';

export function Notice({ kind = 'plain', children }: { kind?: 'plain' | 'unsure' | 'bad'; children: ReactNode }) {
  return (
    <div className={`${styles.notice} ${kind === 'plain' ? '' : styles[kind]}`} role={kind === 'bad' ? 'alert' : undefined}>
      {kind !== 'plain' && <Icon name="warning" />}
      <div className={styles.body}>{children}</div>
    </div>
  );
}

/** The sentence that the service gave, or why it was not reached. */
export function errorMessage(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return 'The service was not reached. Check that it runs, and try again.';
}

export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  return (
    <Notice kind="bad">
      <p>{errorMessage(error)}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
    </Notice>
  );
}

/** A fault of the page itself. */
export function PageError({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <Notice kind="bad">
      <p>Something on this page went wrong. What you have saved is safe.</p>
      <p className="muted">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={onRetry}>Try again</Button> <Button onClick={() => location.reload()}>Load the page anew</Button>
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
