/** Buttons for other printed values that would satisfy a failed rule. */

import type { RuleFix } from '../../api/types';
import { Button } from '../../shared/Button';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import type { SchemaField } from '../schemaFields';
import styles from './FieldPanel.module.css';
import { displayValue } from './fieldValue';

interface Props {
  ruleFixes: readonly RuleFix[];
  path: string;
  field: SchemaField | undefined;
  onUse: (value: unknown) => void;
}

export function SuggestedFixes({ ruleFixes, path, field, onUse }: Props) {
  const fixes = ruleFixes.filter((one) => one.path === path);
  if (fixes.length === 0) return null;
  return (
    <ul className={styles.ruleFixes} aria-label={t('fields.fixes')}>
      {fixes.map((one) => (
        <li key={JSON.stringify(one.value)}>
          <Button onClick={() => onUse(one.value)}>{t('fields.use', { value: displayValue(one.value, field, one.location.quote) })}</Button>
          <span className="muted">{t('fields.fixesRule', { page: one.location.page, quote: visibleText(one.location.quote) })}</span>
        </li>
      ))}
    </ul>
  );
}
