/** Which documents are listed: kept in the address, so that a list can be linked to. */

import type { DocumentStatus } from '../api/types';

export interface DocumentFilter {
  name?: string;
  status?: DocumentStatus;
  tag?: string;
}

const STATUSES: readonly unknown[] = ['reading', 'ready', 'failed'] satisfies DocumentStatus[];

/** What of an address is such a filter. */
export function isDocumentFilter(search: Record<string, unknown>): DocumentFilter {
  const { name, status, tag } = search;
  return {
    ...(typeof name === 'string' && name !== '' && { name }),
    ...(STATUSES.includes(status) && { status: status as DocumentStatus }),
    ...(typeof tag === 'string' && tag !== '' && { tag }),
  };
}
