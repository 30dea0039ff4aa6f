/** The share of wrong values that is accepted among those that no one looks at. */

import { formatNumber } from './format';
import { t } from './i18n';

export const GOALS = [0.005, 0.01, 0.02, 0.05, 1] as const;

export function goalLabel(goal: number): string {
  if (goal >= 1) return t('quality.claim.anyError');
  return t('quality.claim.atMost', { goal: formatNumber(goal, { style: 'percent', maximumFractionDigits: 1 }) });
}
