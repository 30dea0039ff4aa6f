/** The filter and scroll position of the document list, for the way back and for Previous and Next. */

import { useQueryClient } from '@tanstack/react-query';
import { documentsQuery } from './documentQueries';
import type { DocumentFilter } from './filter';

/** `offset`: pixels. */
export const listPosition: { filter: DocumentFilter; offset: number } = { filter: {}, offset: 0 };

/** Return the previous and next document of the list, as far as it was loaded. */
export function useNeighbours(documentId: string): { before: string | undefined; after: string | undefined } {
  const pages = useQueryClient().getQueryData(documentsQuery(listPosition.filter).queryKey)?.pages ?? [];
  const ids = pages.flatMap((page) => page.items.map((one) => one.id));
  const at = ids.indexOf(documentId);
  return { before: at > 0 ? ids[at - 1] : undefined, after: at >= 0 ? ids[at + 1] : undefined };
}
