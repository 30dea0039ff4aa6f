/** Which documents are listed: kept in the address, so that a list can be linked to. */

import type { Document } from '../api/types';
import { STAGES } from './StageBadge';

export interface DocumentFilter {
  name?: string;
  status?: Document['stage'];
  tag?: string;
}

/** What of an address is such a filter. */
export function parseDocumentFilter(search: Record<string, unknown>): DocumentFilter {
  const { name, status, tag } = search;
  return {
    ...(typeof name === 'string' && name !== '' && { name }),
    ...(typeof status === 'string' && Object.hasOwn(STAGES, status) && { status: status as Document['stage'] }),
    ...(typeof tag === 'string' && tag !== '' && { tag }),
  };
}
