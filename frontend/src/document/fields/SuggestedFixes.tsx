/** What else the document prints that, in place of a value, would make a broken rule hold: taken with one press. */

import type { RuleReading } from '../../api/types';
import { Button } from '../../shared/Button';
import { visibleText } from '../../shared/format';
import styles from './FieldPanel.module.css';
import { shown } from './fieldValue';

interface Props {
  readings: readonly RuleReading[];
  path: string;
  onTake: (value: unknown) => void;
}

export function SuggestedFixes({ readings, path, onTake }: Props) {
  const those = readings.filter((one) => one.path === path);
  if (those.length === 0) return null;
  return (
    <ul className={styles.readings} aria-label="Suggested fixes">
      {those.map((one) => (
        <li key={JSON.stringify(one.value)}>
          <Button onClick={() => onTake(one.value)}>Use {shown(one.value)}</Button>
          <span className="muted">
            Fixes the rule, printed on page {one.place.page} as <q>{visibleText(one.place.quote)}</q>
          </span>
        </li>
      ))}
    </ul>
  );
}
