/** Placeholder lines while something loads. */

import { t } from './i18n';
import styles from './Loading.module.css';

export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div className={styles.loading} role="status" aria-label={t('common.loading')}>
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} className={styles.line} />
      ))}
    </div>
  );
}
