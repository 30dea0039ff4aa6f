/** What the quality page shows: a period, and the values that a number counts, of one column or all. It is part of the
 * address. */

import type { CountedKind } from '../api/types';
import { parsePeriod, type PeriodView } from '../home/period';

const KINDS = [
  ...(['confirmed', 'corrected', 'found', 'checked', 'filled', 'missing'] as const),
  ...(['accepted', 'audited', 'wrong', 'waiting'] as const),
] satisfies readonly CountedKind[];

export interface QualityView extends PeriodView {
  column?: string;
  /** Default: what was corrected. */
  show?: CountedKind;
}

export function parseQualityView(search: Record<string, unknown>): QualityView {
  const { column, show } = search;
  return {
    ...parsePeriod(search),
    ...(typeof column === 'string' && column !== '' && { column }),
    ...((KINDS as readonly unknown[]).includes(show) && { show: show as CountedKind }),
  };
}
