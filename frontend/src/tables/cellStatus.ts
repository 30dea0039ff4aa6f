/** The status of a cell and of a row: an icon, a colour and a text. */

import type { Evidence, Extraction, ReadRow, RecordCell, RecordRow } from '../api/types';
import { displayValue } from '../document/fields/fieldValue';
import { pathLabel } from '../document/fields/labels';
import { pathSteps, valueAt } from '../document/fields/paths';
import type { Tone } from '../shared/Badge';
import { t } from '../shared/i18n';
import type { IconName } from '../shared/Icon';

export type CellStatus = RecordCell['status'];

export const UNCLEAR_BELOW = 0.5; // as the API counts it

/** Of cells that a person should look at. */
export const TO_REVIEW = ['needs_review', 'unclear', 'stale'] as const satisfies readonly CellStatus[];
/** `to_review`: any of those. */
export type CellFilter = CellStatus | 'to_review';

export const CELL_STATUSES: Record<CellStatus, { tone: Tone; icon?: IconName }> = {
  found: { tone: 'good' },
  unclear: { tone: 'unsure', icon: 'question' },
  needs_review: { tone: 'bad', icon: 'warning' },
  stale: { tone: 'unsure', icon: 'clock' },
  locked: { tone: 'good', icon: 'lock' },
  not_written: { tone: 'unsure' },
  not_in_document: { tone: 'plain' },
};

/** undefined: the row has no values yet. */
export function cellStatus(cell: RecordCell | undefined): CellStatus {
  return cell?.status ?? 'not_written';
}

/** Return a cell's status in words: of one to review or an unclear one, why. Only `evidence` has whether the agent doubts it. */
export function cellStatusText(cell: RecordCell | undefined, evidence?: Pick<Evidence, 'claim'>): string {
  if (cell?.reason === 'low_confidence' && evidence !== undefined) return t(`tables.unclearReasons.${(evidence.claim?.confidence ?? 1) < UNCLEAR_BELOW ? 'doubted' : 'illegible'}`);
  return cell?.reason != null ? t(`tables.reviewReasons.${cell.reason}`) : t(`tables.cellStatuses.${cellStatus(cell)}`);
}

/** Return what the agent proposes for a field, or for a list or object around it; undefined if nothing. */
export function proposalOf(proposals: Extraction['proposals'], path: string): Extraction['proposals'][number] | undefined {
  return proposals.find(({ path: of }) => isWithin(path, of));
}

/** Return what the agent proposes for a field, in words; undefined if nothing. */
export function proposalText(proposals: Extraction['proposals'], path: string): string | undefined {
  const found = proposalOf(proposals, path);
  if (found === undefined) return undefined;
  const value = displayValue(valueAt(found.new, pathSteps(path.slice(found.path.length)) ?? []));
  const text = value === '' ? t('tables.proposedRemoval') : t('tables.proposedValue', { value });
  return found.path === path ? text : `${text}. ${t('tables.proposedWhole', { field: pathLabel(found.path) })}`;
}

/** Whether a field is at a path or below it. */
export function isWithin(path: string, of: string): boolean {
  return path === of || path.startsWith(`${of}.`) || path.startsWith(`${of}[`);
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
  return row.extraction_id !== null && (row.status === 'done' || row.status === 'incomplete' || row.status === 'failed');
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
