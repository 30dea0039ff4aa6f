/** Which fields something could be: those that the schema names and other documents have, and that are empty here. */

import type { SchemaField } from '../schemaFields';
import { childName, pathSteps, valueAt } from '../fields/paths';
import type { Unmapped } from './unmappedItems';

export type Wants = 'number' | 'day' | 'text' | null;

export interface Suggestion {
  path: string;
  /** What stands there, as far as that is known. */
  wants: Wants;
}

interface Known {
  path: string;
  kinds: readonly string[];
}

const FITTING: Record<Unmapped['kind'], readonly Wants[]> = { number: ['number', 'text'], date: ['day'] };

/** Those that fit come first, of these the schema's. */
export function suggestedPaths(fields: unknown, schema: readonly SchemaField[], known: readonly Known[], kind: Unmapped['kind']): Suggestion[] {
  const wanted = new Map<string, Suggestion>();
  const add = (said: string, wants: Wants) => {
    const path = pathIn(fields, said);
    if (path !== null && !wanted.has(path) && isEmpty(valueAt(fields, pathSteps(path) ?? []))) wanted.set(path, { path, wants });
  };
  for (const one of schema) if (!/object|array/.test(one.type)) add(one.path, wantsOf(one.type));
  for (const one of known) add(one.path, one.kinds.length === 1 ? ((one.kinds[0] ?? null) as Wants) : null);
  const rank = ({ wants }: Suggestion) => {
    const place = FITTING[kind].indexOf(wants);
    return place < 0 ? FITTING[kind].length + (wants === null ? 0 : 1) : place;
  };
  return [...wanted.values()].sort((a, b) => rank(a) - rank(b));
}

/** What is written where something is taken: as it is printed, where a text is wanted. */
export function valueFor({ value, text }: Unmapped, wants: Wants): string | number {
  return wants === 'text' ? text : (value ?? text);
}

function wantsOf(type: string): Wants {
  if (/number|integer/.test(type)) return 'number';
  return type === 'date' || type === 'date-time' ? 'day' : type.includes('string') ? 'text' : null;
}

/** Of a path that is said of every item (`items[].price`): that of the last row, where it is empty there, else of a new
 * one. null: it is of lists in lists. */
export function pathIn(fields: unknown, said: string): string | null {
  const [list, ...rest] = said.split(/\[\*?\]/);
  if (rest.length === 0) return said;
  const steps = list === '' || list === undefined ? null : pathSteps(list);
  const [below] = rest;
  if (steps === null || below === undefined || rest.length > 1) return null;
  const stands = valueAt(fields, steps);
  const count = Array.isArray(stands) ? stands.length : 0;
  const inRow = pathSteps(below.replace(/^\./, ''));
  if (inRow === null) return null;
  const row = count > 0 && isEmpty(valueAt(stands, [count - 1, ...inRow])) ? count - 1 : count;
  return inRow.reduce<string>((name, step) => childName(name, step), childName(list ?? '', row));
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}
