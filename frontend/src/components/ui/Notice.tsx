/** Notices: a remark, a warning, or an error with a way to try again. */

import { CircleAlert, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { ApiError } from '../../api/client';
import { t } from '../../shared/i18n';
import { Button } from './Button';
import { cn } from './cn';

const KINDS = {
  plain: 'border-border bg-card text-foreground',
  unsure: 'border-need-line bg-need-bg text-need',
  bad: 'border-transparent bg-bad-bg text-bad',
};

export function Notice({ kind = 'plain', children }: { kind?: 'plain' | 'unsure' | 'bad'; children: ReactNode }) {
  const Sign = kind === 'bad' ? TriangleAlert : CircleAlert;
  return (
    <div
      className={cn('flex items-start gap-2 rounded-lg border px-3 py-2', KINDS[kind])}
      role={kind === 'bad' ? 'alert' : undefined}>
      {kind !== 'plain' && <Sign size={15} className="mt-0.5 shrink-0" aria-hidden="true" />}
      <div className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3 gap-y-1 wrap-anywhere">{children}</div>
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
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={onRetry}>{t('common.tryAgain')}</Button>
      <Button onClick={() => location.reload()}>{t('common.reload')}</Button>
    </Notice>
  );
}
