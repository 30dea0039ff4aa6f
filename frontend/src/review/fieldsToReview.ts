/** Which fields a person should look at: what their evidence does not settle, the most urgent first. */

import type { FieldRow, Leaf, FieldStatus } from '../document/fields/fieldTree';

const URGENT: readonly FieldStatus[] = ['missing', 'broken', 'proposal', 'not_found', 'unsure'];

/** Without those that were decided or left for later. Of equal urgency, in the order of the page. */
export function fieldsToReview(rows: readonly FieldRow[], done: ReadonlySet<string>): Leaf[] {
  return rows
    .filter((row): row is Leaf => row.kind === 'leaf' && URGENT.includes(row.status) && !done.has(row.path) && !isSettled(row))
    .sort((a, b) => URGENT.indexOf(a.status) - URGENT.indexOf(b.status));
}

/** Of a rule between fields that is broken all the same, one that somebody has set is not asked about again. */
function isSettled(row: Leaf): boolean {
  return row.status === 'broken' && row.lock !== undefined && row.errors.every((one) => one.path !== row.path);
}

/** How fast it goes: decisions a minute, over the time between the first and the last. null before the second. */
export function perMinute(times: readonly number[]): number | null {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || last <= first) return null;
  return ((times.length - 1) / (last - first)) * 60_000;
}
