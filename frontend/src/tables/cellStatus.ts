/** The status of a cell and of a row: an icon, a colour and a text. */

import type { Evidence, ReadRow, RecordCell, RecordRow } from '../api/types';
import { NEEDS_PERSON, statusText, type Status } from '../document/fields/fieldStatus';
import type { Tone } from '../shared/Badge';
import type { IconName } from '../shared/Icon';

export type CellStatus = RecordCell['status'];

/** Of cells that a person should look at, the most urgent first. */
export const TO_REVIEW = [...NEEDS_PERSON, 'stale'] as const satisfies readonly CellStatus[];
/** All, the most urgent first. */
export const CELL_STATUSES = [
  ...TO_REVIEW,
  'not_written',
  'blank',
  'accepted',
  'confirmed',
  'found',
] as const satisfies readonly CellStatus[];
/** `to_review`: any of those that a person should look at. */
export type CellFilter = CellStatus | 'to_review';

/** undefined: the row has no values yet. */
export function cellStatus(cell: RecordCell | undefined): Status & { status: CellStatus } {
  return { status: cell?.status ?? 'not_written', reason: cell?.reason ?? null };
}

/** Return a cell's status in words, with its reason. */
export function cellStatusText(cell: RecordCell | undefined, evidence?: Pick<Evidence, 'claim'>): string {
  return statusText(cellStatus(cell), evidence, cell?.confidence);
}

/** Whether a person should look at the cell. */
export function needsLook(cell: RecordCell | undefined): boolean {
  return (TO_REVIEW as readonly (string | undefined)[]).includes(cell?.status);
}

/** Whether the row has values that can be changed. */
export function isRead(row: RecordRow): row is ReadRow {
  return row.extraction_id !== null && row.version !== null;
}

/** A row that a run can read again, into the same extraction: what a person set there stays. */
export type ReadableAgain = RecordRow & { extraction_id: string };

export function canReadAgain(row: RecordRow): row is ReadableAgain {
  return (
    row.extraction_id !== null && (row.status === 'done' || row.status === 'incomplete' || row.status === 'failed')
  );
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

/** Return a row's status, and the number of fields of its document that a person has to look at. */
export function rowStatus({ status, review_count: count, is_reviewed: isReviewed }: RecordRow): {
  status: RowStatus;
  count: number;
} {
  if (status !== 'done') return { status, count };
  return { status: count > 0 ? 'to_check' : isReviewed ? 'reviewed' : 'done', count };
}
