/** What the schema says against an extraction. */

import type { FieldError } from '../api/types';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Notice } from '../components/ui/Notice';
import styles from './DocumentPage.module.css';
import { violationText } from './fields/violationText';
import type { SchemaField } from './schemaFields';

interface Props {
  errors: readonly FieldError[];
  schema: readonly SchemaField[];
  onChoose: (path: string) => void;
}

export function BrokenRules({ errors, schema, onChoose }: Props) {
  return (
    <div className={styles.notices}>
      <Notice kind="unsure">
        <ul className={styles.problems}>
          {errors.map((one) => (
            <li key={one.path + one.code}>
              {violationText(one, schema)}{' '}
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
