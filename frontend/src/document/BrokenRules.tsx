/** Which rules of its schema an extraction breaks. */

import type { FieldError } from '../api/types';
import { Button } from '../shared/Button';
import { Notice } from '../shared/Notice';
import styles from './DocumentPage.module.css';

export function BrokenRules({ errors, onChoose }: { errors: readonly FieldError[]; onChoose: (path: string) => void }) {
  return (
    <div className={styles.notices}>
      <Notice kind="unsure">
        <ul className={styles.problems}>
          {errors.map((one) => (
            <li key={one.path + one.code}>
              {one.message}{' '}
              {(one.path || one.about[0]) && (
                <Button kind="quiet" onClick={() => onChoose(one.path || one.about[0]!)}>
                  Show
                </Button>
              )}
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
