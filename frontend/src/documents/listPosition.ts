/** The filter and scroll position of the document list, for the way back and for Previous and Next. */

import { useQueryClient } from '@tanstack/react-query';
import { documentsQuery } from './documentQueries';
import type { DocumentFilter } from './filter';

/** `offset`: pixels. */
export const listPosition: { filter: DocumentFilter; offset: number } = { filter: {}, offset: 0 };

/** Return where a document is in the list, as far as the list was loaded, with the documents before and after it. */
export function useDocumentPosition(documentId: string) {
  const pages = useQueryClient().getQueryData(documentsQuery(listPosition.filter).queryKey)?.pages ?? [];
  const ids = pages.flatMap((page) => page.items.map((one) => one.id));
  const at = ids.indexOf(documentId);
  return {
    at,
    count: ids.length,
    isMore: pages.at(-1)?.next != null,
    before: at > 0 ? ids[at - 1] : undefined,
    after: at >= 0 ? ids[at + 1] : undefined,
  };
}
