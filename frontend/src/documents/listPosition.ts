/** Where a person was in the list of documents: they come back to it, and go through the same documents. */

import { useQueryClient } from '@tanstack/react-query';
import { documentsQuery } from './documentQueries';
import type { DocumentFilter } from './filter';

/** `offset`: how far the list was scrolled, in pixels. */
export const listPosition: { filter: DocumentFilter; offset: number } = { filter: {}, offset: 0 };

/** The documents before and after one in the list that it was opened from, as far as that was loaded. */
export function useNeighbours(documentId: string): { before: string | undefined; after: string | undefined } {
  const pages = useQueryClient().getQueryData(documentsQuery(listPosition.filter).queryKey)?.pages ?? [];
  const ids = pages.flatMap((page) => page.items.map((one) => one.id));
  const at = ids.indexOf(documentId);
  return { before: at > 0 ? ids[at - 1] : undefined, after: at >= 0 ? ids[at + 1] : undefined };
}
