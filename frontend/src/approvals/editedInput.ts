/** A call's arguments with other values in them, as the person who decides it wants them. */

import { pathSteps, valueAt, type Step } from '../document/fields/paths';

type Input = Readonly<Record<string, unknown>>;

/** Where in the arguments the value of a change stands: below `fields`, or in `value` where the arguments name the path.
 * null: nobody can tell, so the arguments are edited as a whole. */
export function inputPathOf(input: Input, path: string): Step[] | null {
  if (input.path === path && 'value' in input) return ['value'];
  const steps = pathSteps(path);
  if (steps === null || input.fields === undefined) return null;
  const place = ['fields', ...steps];
  return valueAt(input, place) === undefined ? null : place;
}

/** The arguments with some values replaced. Nothing of what is given is changed. */
export function editedInput(input: Input, edits: readonly { place: readonly Step[]; value: unknown }[]): Record<string, unknown> {
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
