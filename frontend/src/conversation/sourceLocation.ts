/** The location of a source on a page. */

import type { Source } from '../api/types';

export interface SourceLocation {
  documentId: string;
  page: number;
  boxes: readonly (readonly number[])[];
  /** The number of the source; null for a search hit. */
  number: number | null;
  /** Increases each time it is opened. */
  at: number;
}

export function locationOf(
  source: Pick<Source, 'document_id' | 'page' | 'boxes'> & { number?: number | null },
): SourceLocation {
  return {
    documentId: source.document_id,
    page: source.page,
    boxes: source.boxes,
    number: source.number ?? null,
    at: 0,
  };
}
