/** What the quality page shows: a period, and the corrections of one column. It is part of the address. */

import { parsePeriod, type PeriodView } from '../home/period';

export interface QualityView extends PeriodView {
  column?: string;
}

export function parseQualityView(search: Record<string, unknown>): QualityView {
  const { column } = search;
  return { ...parsePeriod(search), ...(typeof column === 'string' && column !== '' && { column }) };
}
