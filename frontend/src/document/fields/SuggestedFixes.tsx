/** Buttons for other printed values that would satisfy a failed rule. */

import type { RuleFix } from '../../api/types';
import { Button } from '../../components/ui/Button';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import type { SchemaField } from '../schemaFields';
import styles from './FieldPanel.module.css';
import { displayValue } from './fieldValue';
import { pathLabel, schemaPath } from './labels';
import { isWithin } from './proposals';

interface Props {
  ruleFixes: readonly RuleFix[];
  /** A field, or a list or object whose fields the rule uses. */
  path: string;
  schema: readonly SchemaField[];
  onUse: (path: string, value: unknown) => void;
}

export function SuggestedFixes({ ruleFixes, path, schema, onUse }: Props) {
  const fixes = ruleFixes.filter((one) => isWithin(one.path, path));
  if (fixes.length === 0) return null;
  const fixedValue = (one: RuleFix) =>
    displayValue(
      one.value,
      schema.find((field) => field.path === schemaPath(one.path)),
      one.location.quote,
    );
  return (
    <ul className={styles.ruleFixes} aria-label={t('fields.fixes')}>
      {fixes.map((one) => (
        <li key={`${one.path} ${JSON.stringify(one.value)}`}>
          <Button onClick={() => onUse(one.path, one.value)}>
            {one.path === path
              ? t('fields.use', { value: fixedValue(one) })
              : t('fields.useFor', { field: pathLabel(one.path, schema), value: fixedValue(one) })}
          </Button>
          <span className="muted">
            {t('fields.fixesRule', { page: one.location.page, quote: visibleText(one.location.quote) })}
          </span>
        </li>
      ))}
    </ul>
  );
}
