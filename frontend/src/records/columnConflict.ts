/** Two columns of a stack whose names are too alike to be different columns. */

import type { StackColumn } from '../api/types';

/** Return the indexes of the first two columns whose names have the same letters and digits, whatever their case, spaces and
 * punctuation. Dots count: they separate the names of nested fields. */
export function columnConflict(columns: readonly Pick<StackColumn, 'name'>[]): readonly [number, number] | null {
  const seen = new Map<string, number>();
  for (const [index, { name }] of columns.entries()) {
    const key = nameKey(name);
    if (key === '') continue;
    const before = seen.get(key);
    if (before !== undefined) return [before, index];
    seen.set(key, index);
  }
  return null;
}

function nameKey(name: string): string {
  const steps = name.normalize('NFKC').toLowerCase().split('.');
  const key = steps.map((step) => step.replace(/[^\p{L}\p{M}\p{N}]/gu, '')).filter((step) => step !== '');
  return key.length > 0 ? key.join('.') : name.trim();
}
