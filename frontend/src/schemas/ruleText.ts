/** The rule of a field in words. */

import { patternText } from '../fields/patternText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { rowsOf, type SchemaRow, type Shape } from './schemaModel';

/** Return what values of a field must be: "EUR, GBP", "0 to 25", "total = net + tax". */
export function ruleText({ shape, type }: SchemaRow, between: readonly string[] = []): string {
  const { pattern, minimum, maximum } = shape;
  const own =
    type === 'choice'
      ? (shape.enum as unknown[]).filter((one) => one !== null).join(', ')
      : typeof pattern === 'string'
        ? patternText(pattern)
        : typeof minimum === 'number' && typeof maximum === 'number'
          ? t('schemas.range', { minimum, maximum })
          : typeof minimum === 'number'
            ? `≥ ${minimum}`
            : typeof maximum === 'number'
              ? `≤ ${maximum}`
              : '';
  const count = type === 'rows' ? rowsOf((shape.items ?? {}) as Shape).length : 0;
  return [own, count > 0 ? t('schemas.columns', { count }) : '', ...between]
    .filter((one) => one !== '')
    .map(visibleText)
    .join('; ');
}
