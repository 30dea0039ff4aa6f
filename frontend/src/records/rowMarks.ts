/** Likely duplicates and outliers of the rows of a page. */

import type { RecordMark } from '../api/types';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';

export interface RowMarks {
  /** The name of the document that the row duplicates. */
  duplicate?: string;
  /** By path: why the value is unusual. */
  outliers: ReadonlyMap<string, string>;
}

/** Return the marks by extraction. */
export function rowMarks(marks: readonly RecordMark[]): Map<string, RowMarks> {
  const found = new Map<string, RowMarks>();
  for (const mark of marks) {
    const before = found.get(mark.extraction_id) ?? { outliers: new Map() };
    if (mark.code === 'duplicate')
      found.set(mark.extraction_id, { ...before, duplicate: visibleText(mark.of.filename) });
    else {
      found.set(mark.extraction_id, {
        ...before,
        outliers: new Map([...before.outliers, [mark.path, outlierText(mark)]]),
      });
    }
  }
  return found;
}

function outlierText({ low, high }: Extract<RecordMark, { code: 'outlier' }>): string {
  // Days are compared with the middle day of their column, ten years before to ten years after.
  if (typeof low !== 'number' || typeof high !== 'number') return t('tables.outlierDay');
  const [from, to] = [low, high].map((bound) => formatNumber(bound, { maximumFractionDigits: 2 }));
  return t('tables.outlier', { low: from!, high: to! });
}
