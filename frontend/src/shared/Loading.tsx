/** What is shown where something is on its way: lines in the place of what comes. */

import styles from './Loading.module.css';

export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div className={styles.loading} role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} className={styles.line} />
      ))}
    </div>
  );
}
