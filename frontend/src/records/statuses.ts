/** The statuses of cells and rows by which a table is filtered. */

import type { RecordCell, RecordRow } from '../api/types';
import { NEEDS_PERSON } from '../fields/fieldStatus';

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

export const ROW_STATES = [
  'done',
  'waiting',
  'running',
  'awaiting_approval',
  'incomplete',
  'failed',
  'duplicate',
  'container',
  'stale',
] as const satisfies readonly RecordRow['status'][];
