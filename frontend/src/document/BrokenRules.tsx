/** What the schema says against an extraction. */

import type { FieldError } from '../api/types';
import { Button } from '../shared/Button';
import { t } from '../shared/i18n';
import { Notice } from '../shared/Notice';
import styles from './DocumentPage.module.css';
import { describeError } from './fields/fieldStatus';

export function BrokenRules({ errors, onChoose }: { errors: readonly FieldError[]; onChoose: (path: string) => void }) {
  return (
    <div className={styles.notices}>
      <Notice kind="unsure">
        <ul className={styles.problems}>
          {errors.map((one) => (
            <li key={one.path + one.code}>
              {describeError(one)}{' '}
              {(one.path || one.about[0]) && (
                <Button kind="quiet" onClick={() => onChoose(one.path || one.about[0]!)}>
                  {t('common.show')}
                </Button>
              )}
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
