/** What a person should know here: a remark, a warning, what failed and what to do, or why there is nothing yet. */

import type { ReactNode } from 'react';
import { Refused } from '../api/client';
import { Button } from './Button';
import styles from './Notice.module.css';
import { Sign } from './Sign';

export function Notice({ kind = 'plain', children }: { kind?: 'plain' | 'unsure' | 'bad'; children: ReactNode }) {
  return (
    <div className={`${styles.notice} ${kind === 'plain' ? '' : styles[kind]}`} role={kind === 'bad' ? 'alert' : undefined}>
      {kind !== 'plain' && <Sign name="warning" />}
      <div className={styles.body}>{children}</div>
    </div>
  );
}

/** The sentence that the service gave, or why it was not reached. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Refused) return error.message;
  return 'The service was not reached. Check that it runs, and try again.';
}

export function Failure({ error, again }: { error: unknown; again?: (() => void) | undefined }) {
  return (
    <Notice kind="bad">
      <p>{sentenceOf(error)}</p>
      {again !== undefined && <Button onClick={again}>Try again</Button>}
    </Notice>
  );
}

/** A fault of the page itself. */
export function Broken({ error, again }: { error: unknown; again: () => void }) {
  return (
    <Notice kind="bad">
      <p>Something on this page went wrong. What you have saved is safe.</p>
      <p className="soft">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={again}>Try again</Button> <Button onClick={() => location.reload()}>Load the page anew</Button>
    </Notice>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
