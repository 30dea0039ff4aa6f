/** What the agent says and has not yet said whole: its answer as it comes, its reasoning closed, with how long it takes. */

import { useEffect, useState } from 'react';
import { Icon } from '../shared/Icon';
import styles from './RunPanel.module.css';
import type { RunState } from './runReducer';

export function RunDraft({ draft }: { draft: NonNullable<RunState['draft']> }) {
  if (draft.kind === 'text') return <p className={styles.said}>{draft.text}</p>;
  return (
    <details className={styles.step}>
      <summary>
        <Icon name="spark" size={13} /> <span className={styles.what}>Reasoning…</span>
        <Timer since={draft.since} />
      </summary>
      <p className={`${styles.said} muted`}>{draft.text}</p>
    </details>
  );
}

/** Whole seconds since then. (A timer is announced to nobody as it counts.) */
function Timer({ since }: { since: number }) {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const clock = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(clock);
  }, []);
  return <span role="timer">{Math.max(0, Math.round((now - since) / 1000))} s</span>;
}
