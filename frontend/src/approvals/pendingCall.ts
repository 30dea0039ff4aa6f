/** A tool call that waits for a decision. */

import type { Evidence, WaitingCall } from '../api/types';
import { pathSteps } from '../fields/paths';

export interface PendingChange {
  path: string;
  old?: unknown;
  new?: unknown;
  added?: boolean | undefined;
  removed?: boolean | undefined;
}

export type PendingCall = Pick<WaitingCall, 'call_id' | 'message'> & {
  tool: string;
  input: Record<string, unknown>;
  changes?: readonly PendingChange[] | null | undefined;
};

/** Evidence of the values that a call would write, by path. */
export type ProposedEvidence = Readonly<Record<string, Evidence | undefined>>;

/** Split a call's changes into changes of schema fields, by the path of the field, and other changes. */
export function schemaChanges(changes: readonly PendingChange[]): {
  fields: ReadonlyMap<string, 'new' | 'removed' | 'changed'>;
  others: readonly PendingChange[];
} {
  const fields = new Map<string, 'new' | 'removed' | 'changed'>();
  const others: PendingChange[] = [];
  for (const change of changes) {
    const steps = pathSteps(change.path) ?? [];
    let path = '';
    let at = 1;
    while (steps[0] === 'schema') {
      if (steps[at] === 'properties' && at + 1 < steps.length) {
        path = path === '' ? `${steps[at + 1]}` : `${path}.${steps[at + 1]}`;
        at += 2;
      } else if (steps[at] === 'items' && path !== '') {
        path += '[*]';
        at += 1;
      } else break;
    }
    path = path.replace(/\[\*\]$/, '');
    if (path === '') {
      // Every schema describes an object.
      if (change.path !== 'schema.type' || change.new !== 'object') others.push(change);
      continue;
    }
    const isWhole = at === steps.length;
    const kind = isWhole && change.added === true ? 'new' : isWhole && change.removed === true ? 'removed' : 'changed';
    if (!fields.has(path)) fields.set(path, kind);
  }
  return { fields, others };
}
