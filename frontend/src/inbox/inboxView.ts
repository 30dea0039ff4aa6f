/** A part of the inbox, as in the address. */

import type { components } from '../api/description';

export type InboxKind = components['schemas']['InboxKind'];
export const KINDS = ['value', 'approval', 'suggestion', 'failed'] as const satisfies readonly InboxKind[];

/** `days`: at least this old. `field`: the pattern of a field, to review it in all documents. */
export interface InboxView {
  kind?: InboxKind;
  schema?: string;
  /** Who uploaded or started it. */
  person?: string;
  /** Who checks the document. */
  assignee?: string;
  days?: number;
  field?: string;
  /** The approval of this run is open first. */
  run?: string;
  /** Of values: by what a look is worth. Otherwise the newest come first. */
  order?: 'value';
}

export function parseInboxView(search: Record<string, unknown>): InboxView {
  const { kind, schema, person, assignee, days, field, order, run } = search;
  return {
    ...((KINDS as readonly unknown[]).includes(kind) && { kind: kind as InboxKind }),
    ...(typeof schema === 'string' && { schema }),
    ...(typeof person === 'string' && { person }),
    ...(typeof assignee === 'string' && { assignee }),
    ...(typeof days === 'number' && days > 0 && { days }),
    ...(typeof field === 'string' && field !== '' && { field }),
    ...(typeof run === 'string' && { run }),
    ...(kind === 'value' && order === 'value' && { order }),
  };
}
