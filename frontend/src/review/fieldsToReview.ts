/** Which fields a person should review, the most urgent first. */

import type { FieldRow, Leaf, FieldStatus } from '../document/fields/fieldTree';

const URGENT: readonly FieldStatus[] = ['missing', 'broken', 'proposal', 'not_found', 'unsure'];

/** `done`: fields that were decided or skipped. Fields of equal urgency keep their order. */
export function fieldsToReview(rows: readonly FieldRow[], done: ReadonlySet<string>): Leaf[] {
  return rows
    .filter((row): row is Leaf => row.kind === 'leaf' && URGENT.includes(row.status) && !done.has(row.path) && !isSettled(row))
    .sort((a, b) => URGENT.indexOf(a.status) - URGENT.indexOf(b.status));
}

/** Whether a field that only fails a rule between fields was set by a person: it is not asked about again. */
function isSettled(row: Leaf): boolean {
  return row.status === 'broken' && row.lock !== undefined && row.errors.every((one) => one.path !== row.path);
}

/** Return the decisions per minute between the first and the last; null before the second decision. */
export function perMinute(times: readonly number[]): number | null {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || last <= first) return null;
  return ((times.length - 1) / (last - first)) * 60_000;
}
