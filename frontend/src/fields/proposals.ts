/** What agents propose in place of a person's values: for a field, or for a list or object around it. */

import type { Extraction } from '../api/types';
import { childName } from './paths';

export type Proposal = Extraction['proposals'][number];

/** Whether a field is at a path or below it. */
export function isWithin(path: string, of: string): boolean {
  return path === of || path.startsWith(`${of}.`) || path.startsWith(`${of}[`);
}

/** Return the proposal for a field, or for a list or object around it; undefined if there is none. */
export function proposalOf(proposals: readonly Proposal[], path: string): Proposal | undefined {
  return proposals.find((one) => isWithin(path, one.path));
}

export interface ProposedChange {
  path: string;
  /** undefined: there is no value; so for `now`. */
  was: unknown;
  now: unknown;
}

/** Return the single values that a proposal would change. */
export function proposedChanges({ path, old, new: proposed, removed }: Proposal): ProposedChange[] {
  const [before, after] = [leaves(old, path), removed ? new Map<string, unknown>() : leaves(proposed, path)];
  const paths = [...new Set([...before.keys(), ...after.keys()])];
  return paths
    .map((one) => ({ path: one, was: before.get(one), now: after.get(one) }))
    .filter(({ was, now }) => JSON.stringify(was) !== JSON.stringify(now));
}

function leaves(value: unknown, path: string): Map<string, unknown> {
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return new Map([[path, value]]);
  const children = Array.isArray(value) ? value.map((child, index) => [index, child] as const) : Object.entries(value);
  return new Map(children.flatMap(([step, child]) => [...leaves(child, childName(path, step))]));
}
