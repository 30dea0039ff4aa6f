/** Editing the arguments of a call before it is approved. */

import { pathSteps, valueAt, type Step } from '../document/fields/paths';

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
