/** The status of a cell and of a row: an icon, a colour and a text. */

import type { ReadRow, RecordCell, RecordRow } from '../api/types';
import type { Tone } from '../shared/Badge';
import type { IconName } from '../shared/Icon';

export type CellStatus = RecordCell['status'];

export const CELL_STATUSES: Record<CellStatus, { tone: Tone; icon?: IconName }> = {
  found: { tone: 'good' },
  unclear: { tone: 'unsure', icon: 'question' },
  needs_review: { tone: 'bad', icon: 'warning' },
  stale: { tone: 'unsure', icon: 'clock' },
  locked: { tone: 'good', icon: 'lock' },
  not_in_document: { tone: 'plain' },
};

/** undefined: the row has no values yet. */
export function cellStatus(cell: RecordCell | undefined): CellStatus {
  return cell?.status ?? 'not_in_document';
}

/** Whether a person should look at the cell. */
export function needsLook(cell: RecordCell | undefined): boolean {
  return cell?.status === 'unclear' || cell?.status === 'needs_review' || cell?.status === 'stale';
}

/** Whether the row has values that can be changed. */
export function isRead(row: RecordRow): row is ReadRow {
  return row.extraction_id !== null && row.version !== null;
}

export type RowStatus = RecordRow['status'] | 'reviewed' | 'to_check';

export const ROW_STATUSES: Record<RowStatus, { tone: Tone; icon?: IconName }> = {
  reviewed: { tone: 'good', icon: 'check' },
  to_check: { tone: 'unsure', icon: 'warning' },
  done: { tone: 'plain' },
  waiting: { tone: 'plain', icon: 'clock' },
  running: { tone: 'plain', icon: 'spark' },
  awaiting_approval: { tone: 'unsure', icon: 'question' },
  incomplete: { tone: 'unsure', icon: 'question' },
  failed: { tone: 'bad', icon: 'cross' },
  duplicate: { tone: 'plain', icon: 'copy' },
  container: { tone: 'plain', icon: 'copy' },
  stale: { tone: 'unsure', icon: 'clock' },
};

/** Return a row's status, and the number of its cells that a person should look at. */
export function rowStatus(row: RecordRow): { status: RowStatus; count: number } {
  const count = Object.values(row.cells).filter(needsLook).length;
  if (row.status !== 'done') return { status: row.status, count };
  if (row.is_reviewed) return { status: 'reviewed', count };
  return { status: count > 0 ? 'to_check' : 'done', count };
}
