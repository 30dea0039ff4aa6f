/** The order in which the fields that a person has to look at are reviewed. */

import type { Reason } from '../api/types';
import { needsPerson } from '../document/fields/fieldStatus';
import type { FieldRow } from '../document/fields/fieldTree';
import { isWithin } from '../document/fields/proposals';

/** `pending`: decided, and not saved yet. `saved`: it may be asked about again, if the service says so. */
export type Decided = ReadonlyMap<string, 'pending' | 'saved' | 'skipped'>;

/** A field of a document; or the object or list that breaks the schema itself. */
export type ToReviewRow = FieldRow & { status: NonNullable<FieldRow['status']> };

/** All other reasons are those of unclear values. */
const URGENT: readonly (Reason | null)[] = ['missing', 'breaks_schema', 'breaks_rule', 'proposal', 'not_found'];

/** Return what is left to decide. A field that is asked about again comes last, so that it does not replace the one on the
 * screen. `decided`: in the order of the decisions. */
export function fieldsToReview(rows: readonly FieldRow[], decided: Decided): ToReviewRow[] {
  const hidden = [...decided].filter(([, state]) => state !== 'saved').map(([path]) => path);
  const times = new Map([...decided.keys()].map((path, index) => [path, index + 1]));
  const urgency = ({ reason }: FieldRow) => (URGENT.includes(reason) ? URGENT.indexOf(reason) : URGENT.length);
  return rows
    .filter((row): row is ToReviewRow => needsPerson(row) && !hidden.some((of) => isWithin(row.path, of)))
    .sort((a, b) => (times.get(a.path) ?? 0) - (times.get(b.path) ?? 0) || urgency(a) - urgency(b));
}

/** Return the decisions per minute between the first and the last; null before the second decision. */
export function perMinute(times: readonly number[]): number | null {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || last <= first) return null;
  return ((times.length - 1) / (last - first)) * 60_000;
}
