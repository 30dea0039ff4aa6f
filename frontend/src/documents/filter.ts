/** The filter of the document list. It is part of the address, so that a list can be linked to. */

import type { Document, DocumentOrder } from '../api/types';

export interface DocumentFilter {
  name?: string;
  status?: Document['stage'];
  tag?: string;
  /** Uploaded on these days (UTC, both included). */
  since?: string;
  until?: string;
  /** Default: the newest first. */
  sort?: DocumentOrder;
  descending?: boolean;
}

/** What happens to a document now, or what it needs next. */
export const STAGES = [
  ...(['processing', 'ready', 'extracting', 'awaiting_approval', 'proposed'] as const),
  ...(['needs_review', 'extracted', 'reviewed', 'failed'] as const),
] satisfies readonly Document['stage'][];
export const ORDERS = ['added', 'name', 'pages', 'review'] as const satisfies readonly DocumentOrder[];

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const isDay = (one: unknown): one is string =>
  typeof one === 'string' && DAY.test(one) && !Number.isNaN(Date.parse(one));

/** Parse the search parameters of an address; drop invalid ones. */
export function parseDocumentFilter(search: Record<string, unknown>): DocumentFilter {
  const { name, status, tag, since, until, sort, descending } = search;
  return {
    ...(typeof name === 'string' && name !== '' && { name }),
    ...((STAGES as readonly unknown[]).includes(status) && { status: status as Document['stage'] }),
    ...(typeof tag === 'string' && tag !== '' && { tag }),
    ...(isDay(since) && isDay(until) && since <= until && { since, until }),
    ...((ORDERS as readonly unknown[]).includes(sort) && { sort: sort as DocumentOrder }),
    ...(descending === true && { descending }),
  };
}
