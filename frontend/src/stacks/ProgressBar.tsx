/** How far the table of a stack is filled. */

import type { Stack } from '../api/types';
import { t } from '../shared/i18n';
import styles from './Stacks.module.css';

type Progress = Stack['progress'];

export function ProgressBar({ progress }: { progress: Progress }) {
  const { incomplete, failed, running, awaiting_approval: awaiting } = progress;
  const rows = rowCount(progress);
  const parts = [
    ['good', readCount(progress) - progress.stale],
    ['unsure', progress.stale + incomplete],
    ['bad', failed],
    ['busy', running + awaiting],
  ] as const;
  return (
    <div
      className={styles.progress}
      role="progressbar"
      aria-label={t('stacks.progress')}
      aria-valuemin={0}
      aria-valuemax={Math.max(1, rows)}
      aria-valuenow={readCount(progress)}
      aria-valuetext={progressText(progress)}>
      {rows > 0 &&
        parts.map(
          ([tone, count]) =>
            count > 0 && <span key={tone} className={styles[tone]} style={{ width: `${(100 * count) / rows}%` }} />,
        )}
    </div>
  );
}

/** Return "12 of 40 documents read". */
export function progressText(progress: Progress): string {
  return t('stacks.read', { read: readCount(progress), count: rowCount(progress) });
}

/** A duplicate and an archive get no row of their own. */
function rowCount({ documents, duplicates, containers }: Progress): number {
  return documents - duplicates - containers;
}

/** Incomplete rows are read again. */
function readCount({ done, stale }: Progress): number {
  return done + stale;
}
