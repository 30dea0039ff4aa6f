/** What no field claims, as it is listed and drawn. */

import type { Box, UnmappedItem } from '../../api/types';
import type { Mark } from '../fields/fieldTree';

export type Kind = UnmappedItem['kind'];

export interface Unmapped extends UnmappedItem {
  /** Tells it from others; it begins with a space, as no path of a field does. */
  id: string;
}

export const KINDS: readonly { kind: Kind; words: string; one: string }[] = [
  { kind: 'number', words: 'Numbers', one: 'number' },
  { kind: 'date', words: 'Dates', one: 'date' },
];

export function named(item: UnmappedItem): Unmapped {
  return { ...item, id: ` ${item.page}:${item.first}-${item.last}:${item.boxes[0]?.[0] ?? 0}` };
}

/** The first behind a place in the order of reading, or else the last of all. */
export function nearest(items: readonly Unmapped[], to: UnmappedItem): Unmapped | undefined {
  return items.find((one) => one.page > to.page || (one.page === to.page && one.first >= to.first)) ?? items.at(-1);
}

/** The marks of fields, and behind them those of what no field claims. */
export function withUnmapped(marks: Map<number, Mark[]>, items: readonly Unmapped[]): Map<number, Mark[]> {
  for (const { id, page, boxes } of items) {
    const those = marks.get(page) ?? [];
    for (const box of boxes) those.push({ path: id, box: box as Box, status: 'unmapped' });
    marks.set(page, those);
  }
  return marks;
}
