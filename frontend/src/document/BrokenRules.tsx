/** Which rules of its schema an extraction breaks. */

import type { FieldError } from '../api/types';
import { Notice } from '../shared/Notice';
import styles from './DocumentPage.module.css';

export function BrokenRules({ errors }: { errors: readonly FieldError[] }) {
  return (
    <div className={styles.notices}>
      <Notice kind="unsure">
        <ul className={styles.problems}>
          {errors.map((one) => (
            <li key={one.path + one.code}>{one.message}</li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
