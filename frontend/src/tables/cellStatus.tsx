/** The status of a cell and of a row: an icon, a colour and a text. */

import { Check, CircleDashed, CircleHelp, Clock, type LucideIcon, Trash2 } from 'lucide-react';
import type { Evidence, ReadRow, RecordCell, RecordRow } from '../api/types';
import { StatusPill } from '../components/ui/StatusPill';
import { type Status, statusText } from '../fields/fieldStatus';
import { usePendingDeletions } from '../documents/deletions';
import { StatusBadge, statusName, type StatusName } from '../documents/StageBadge';
import { codeText, readingErrorText } from '../shared/codeText';
import { t } from '../shared/i18n';
import { type CellStatus, TO_REVIEW } from '../records/statuses';

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

/** Whether values of the row are still to come. */
export function isBeingRead({ status }: RecordRow): boolean {
  return status === 'waiting' || status === 'running' || status === 'awaiting_approval';
}

/** The sign of a cell, in the grid. */
export function cellIcon({ status, reason }: Status): LucideIcon | undefined {
  if (reason === 'missing') return CircleDashed;
  return CELL_ICONS[status];
}

const CELL_ICONS: Partial<Record<Status['status'], LucideIcon>> = {
  needs_review: CircleHelp,
  unclear: CircleHelp,
  stale: Clock,
  confirmed: Check,
};

/** Return a row's status, and the number of its fields that a person has to look at. */
export function rowStatus({ status, review_count: count, is_reviewed: isReviewed }: RecordRow): {
  status: StatusName;
  count: number;
} {
  if (count > 0 && (status === 'done' || status === 'incomplete')) return { status: 'to_check', count };
  return { status: status === 'done' && isReviewed ? 'reviewed' : status, count };
}

/** Return a row's status in words: "1 missing", "3 to check", "Reviewed". */
export function rowStatusText(row: RecordRow): string {
  const { status, count } = rowStatus(row);
  return statusName(status, count, Object.values(row.cells).filter(({ reason }) => reason === 'missing').length);
}

export function RowState({ row }: { row: RecordRow }) {
  if (usePendingDeletions().has(row.document_id))
    return (
      <StatusPill kind="text" tone="bad" icon={Trash2}>
        {t('tables.deleting')}
      </StatusPill>
    );
  return (
    <span className="flex min-w-0" title={rowProblem(row) ?? rowStatusText(row)}>
      <StatusBadge status={rowStatus(row).status} label={rowStatusText(row)} />
    </span>
  );
}

/** Return why a row failed or is incomplete. */
export function rowProblem(row: RecordRow): string | undefined {
  if (row.error !== null) return codeText('runErrors', row.error_code, readingErrorText(row.error_code, row.error));
  return row.status === 'incomplete' && row.document_review_count === 0 ? t('tables.whyIncomplete') : undefined;
}
