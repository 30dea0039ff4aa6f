/** Text or reasoning that the agent is still writing. */

import { useEffect, useState } from 'react';
import { Sparkles } from 'lucide-react';
import { formatDuration } from '../shared/format';
import { t } from '../shared/i18n';
import styles from './RunPanel.module.css';
import type { RunState } from './runReducer';

export function RunDraft({ draft }: { draft: NonNullable<RunState['draft']> }) {
  if (draft.kind === 'text') return <p className={styles.text}>{draft.text}</p>;
  return (
    <details className={styles.step}>
      <summary>
        <Sparkles size={13} aria-hidden="true" /> <span className={styles.summary}>{t('runs.reasoningNow')}</span>
        <Timer since={draft.since} />
      </summary>
      <p className={`${styles.text} muted`}>{draft.text}</p>
    </details>
  );
}

/** Seconds since `since`. The role `timer` is not announced by screen readers. */
function Timer({ since }: { since: number }) {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const clock = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(clock);
  }, []);
  return <span role="timer">{formatDuration(Math.max(1, Math.round((now - since) / 1000)) * 1000)}</span>;
}
