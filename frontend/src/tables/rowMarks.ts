/** Likely duplicates and outliers of the rows of a page. */

import type { RecordMark } from '../api/types';
import { formatDay, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';

export interface RowMarks {
  /** The name of the document that the row duplicates. */
  duplicate?: string;
  /** By path: the usual range of the column, in words. */
  outliers: ReadonlyMap<string, string>;
}

/** Return the marks by extraction. */
export function rowMarks(marks: readonly RecordMark[]): Map<string, RowMarks> {
  const found = new Map<string, RowMarks>();
  for (const mark of marks) {
    const before = found.get(mark.extraction_id) ?? { outliers: new Map() };
    if (mark.code === 'duplicate') found.set(mark.extraction_id, { ...before, duplicate: visibleText(mark.of.filename) });
    else {
      const range = t('tables.outlier', { low: bound(mark.low), high: bound(mark.high) });
      found.set(mark.extraction_id, { ...before, outliers: new Map([...before.outliers, [mark.path, range]]) });
    }
  }
  return found;
}

function bound(value: number | string): string {
  return typeof value === 'number' ? formatNumber(value, { maximumFractionDigits: 2 }) : formatDay(value);
}
