/** Editing the arguments of a call before it is approved. */

import { pathSteps, valueAt, type Step } from '../fields/paths';

type Input = Readonly<Record<string, unknown>>;

/** Return the steps to a change's value within the arguments: below `fields` or `values`, or `value` if the arguments have a
 * `path`. null: not found; then the arguments are edited as a whole. */
export function inputPathOf(input: Input, path: string): Step[] | null {
  if (input.path === path && 'value' in input) return ['value'];
  const steps = pathSteps(path);
  const below = ['fields', 'values'].find((name) => input[name] != null);
  if (steps === null || below === undefined) return null;
  const place = [below, ...steps];
  return valueAt(input, place) === undefined ? null : place;
}

/** Return a copy of the arguments with some values replaced. */
export function editedInput(
  input: Input,
  edits: readonly { place: readonly Step[]; value: unknown }[],
): Record<string, unknown> {
  const edited = structuredClone(input) as Record<string, unknown>;
  for (const { place, value } of edits) {
    const parent = valueAt(edited, place.slice(0, -1));
    const last = place.at(-1);
    if (typeof parent === 'object' && parent !== null && last !== undefined && Object.hasOwn(parent, last)) {
      (parent as Record<Step, unknown>)[last] = value;
    }
  }
  return edited;
}

/** Return a copy of the arguments without some values, and without what the agent says of them: confidences, quotes. */
export function withoutValues(input: Input, paths: ReadonlySet<string>): Record<string, unknown> {
  const copy = structuredClone(input) as Record<string, unknown>;
  for (const path of paths) {
    const place = inputPathOf(copy, path);
    const parent = place === null ? undefined : valueAt(copy, place.slice(0, -1));
    const last = place?.at(-1);
    if (typeof parent === 'object' && parent !== null && !Array.isArray(parent) && last !== undefined)
      delete (parent as Record<Step, unknown>)[last];
    for (const about of Object.values(copy)) {
      if (typeof about === 'object' && about !== null && about !== copy.fields && Object.hasOwn(about, path))
        delete (about as Record<string, unknown>)[path];
    }
  }
  return copy;
}
