/** The filter of the document list. It is part of the address, so that a list can be linked to. */

import type { Document } from '../api/types';
import { STAGES } from './StageBadge';

export interface DocumentFilter {
  name?: string;
  status?: Document['stage'];
  tag?: string;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseDocumentFilter(search: Record<string, unknown>): DocumentFilter {
  const { name, status, tag } = search;
  return {
    ...(typeof name === 'string' && name !== '' && { name }),
    ...(typeof status === 'string' && Object.hasOwn(STAGES, status) && { status: status as Document['stage'] }),
    ...(typeof tag === 'string' && tag !== '' && { tag }),
  };
}
