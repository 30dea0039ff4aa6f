/** Numbers and dates on the pages that belong to no field. */

import type { Box, UnmappedItem } from '../../api/types';
import type { Mark } from '../../fields/fieldTree';

export type Kind = UnmappedItem['kind'];

export interface Unmapped extends UnmappedItem {
  /** Unique; starts with a space, as no path of a field does. */
  id: string;
}

export const KINDS: readonly Kind[] = ['number', 'date'];

export function withId(item: UnmappedItem): Unmapped {
  return { ...item, id: ` ${item.page}:${item.first}-${item.last}:${item.boxes[0]?.[0] ?? 0}` };
}

/** By page: dates and amounts with cents first, as they are more often fields; then in reading order. */
export function compare(a: UnmappedItem, b: UnmappedItem): number {
  return a.page - b.page || Number(isPlain(a)) - Number(isPlain(b)) || a.first - b.first;
}

function isPlain({ kind, text }: UnmappedItem): boolean {
  return kind !== 'date' && !/[.,]\d\d(?!\d)/.test(text);
}

/** Return the next item in this order, else the last one. */
export function nearest(items: readonly Unmapped[], to: UnmappedItem): Unmapped | undefined {
  return items.find((one) => compare(one, to) >= 0) ?? items.at(-1);
}

/** Add the boxes of unmapped text to those of fields. */
export function withUnmapped(marks: Map<number, Mark[]>, items: readonly Unmapped[]): Map<number, Mark[]> {
  for (const { id, page, boxes } of items) {
    const marksOfPage = marks.get(page) ?? [];
    for (const box of boxes) marksOfPage.push({ path: id, box: box as Box, status: 'unmapped' });
    marks.set(page, marksOfPage);
  }
  return marks;
}
