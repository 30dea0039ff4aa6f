/** Values that a run replaced: whether the old one can be restored, and whether a person would see a change. */

import type { ReplacedValue, StackColumn } from '../api/types';
import { displayValue } from '../fields/fieldValue';
import { childName } from '../fields/paths';
import { fitsColumn } from './cellValue';

/** Why a value cannot be restored: no column of today has its path, or the column has another type. */
export type Misfit = 'no_column' | 'other_type';

/** Return why a value does not fit the columns at its path; null if it does. */
export function misfit(
  columns: readonly Pick<StackColumn, 'name' | 'type'>[],
  path: string,
  value: unknown,
): Misfit | null {
  if (typeof value === 'object' && value !== null) {
    const children = Array.isArray(value)
      ? value.map((child, index) => [childName(path, index), child] as const)
      : Object.entries(value).map(([key, child]) => [childName(path, key), child] as const);
    return children.map(([name, child]) => misfit(columns, name, child)).find((one) => one !== null) ?? null;
  }
  const column = columns.find(({ name }) => name === path.replace(/\[\d+\]/g, '[]'));
  if (column === undefined) return 'no_column';
  if (column.type === 'currency')
    return value === null || (typeof value === 'string' && /^[A-Z]{3}$/.test(value)) ? null : 'other_type';
  return fitsColumn(value, column.type) ? null : 'other_type';
}

/** Which value the row has now: the new one (confirmed by a person or not), the old one again, or another. */
export function changeState({
  is_current,
  is_locked,
  is_restored,
}: Pick<ReplacedValue, 'is_current' | 'is_locked' | 'is_restored'>): 'current' | 'confirmed' | 'restored' | 'changed' {
  if (is_current) return is_locked ? 'confirmed' : 'current';
  return is_restored ? 'restored' : 'changed';
}

/** Whether old and new look different: not if a number only became the same text. */
export function isVisible({ old, new: now }: Pick<ReplacedValue, 'old' | 'new'>): boolean {
  return (
    displayValue(old) !== displayValue(now) &&
    (typeof old === 'object' || typeof now === 'object' || String(old) !== String(now))
  );
}
