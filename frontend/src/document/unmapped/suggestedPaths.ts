/** Suggested fields for unmapped text: empty fields of the schema and of other documents. */

import type { SchemaField } from '../../fields/schemaFields';
import { childName, pathSteps, valueAt } from '../../fields/paths';
import type { Unmapped } from './unmappedItems';

export type ValueType = 'number' | 'day' | 'text' | 'boolean' | null;

export interface Suggestion {
  path: string;
  /** null: not known. */
  valueType: ValueType;
}

interface Known {
  path: string;
  kinds: readonly string[];
}

const FITTING_TYPES: Record<Unmapped['kind'], readonly ValueType[]> = { number: ['number', 'text'], date: ['day'] };

/** Return the fields whose type fits first, the schema's before others. */
export function suggestedPaths(
  fields: unknown,
  schema: readonly SchemaField[],
  known: readonly Known[],
  kind: Unmapped['kind'],
): Suggestion[] {
  const suggestions = new Map<string, Suggestion>();
  const add = (general: string, valueType: ValueType) => {
    const path = pathIn(fields, general);
    if (path !== null && !suggestions.has(path) && isEmpty(valueAt(fields, pathSteps(path) ?? [])))
      suggestions.set(path, { path, valueType });
  };
  for (const one of schema) if (!/object|array/.test(one.type)) add(one.path, valueTypeOf(one.type));
  for (const one of known) add(one.path, one.kinds.length === 1 ? ((one.kinds[0] ?? null) as ValueType) : null);
  const rank = ({ valueType }: Suggestion) => {
    const place = FITTING_TYPES[kind].indexOf(valueType);
    return place < 0 ? FITTING_TYPES[kind].length + (valueType === null ? 0 : 1) : place;
  };
  return [...suggestions.values()].sort((a, b) => rank(a) - rank(b));
}

/** Return the value to store: as printed for a text field, else as parsed. */
export function valueFor({ value, text }: Unmapped, valueType: ValueType): string | number {
  return valueType === 'text' ? text : (value ?? text);
}

function valueTypeOf(type: string): ValueType {
  if (/number|integer/.test(type)) return 'number';
  return type === 'date' || type === 'date-time' ? 'day' : type.includes('string') ? 'text' : null;
}

/** Return a path of every item (`items[].price`) as the path of one: of the last item if it is empty there, else of a new
 * one. null for lists within lists. */
export function pathIn(fields: unknown, general: string): string | null {
  const [list, ...rest] = general.split(/\[\*?\]/);
  if (rest.length === 0) return general;
  const steps = list === '' || list === undefined ? null : pathSteps(list);
  const [below] = rest;
  if (steps === null || below === undefined || rest.length > 1) return null;
  const items = valueAt(fields, steps);
  const count = Array.isArray(items) ? items.length : 0;
  const inRow = pathSteps(below.replace(/^\./, ''));
  if (inRow === null) return null;
  const row = count > 0 && isEmpty(valueAt(items, [count - 1, ...inRow])) ? count - 1 : count;
  return inRow.reduce<string>((name, step) => childName(name, step), childName(list ?? '', row));
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}
