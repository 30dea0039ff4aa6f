/** A place on a page that somebody wants to see. */

import type { Source } from '../api/types';

export interface SourceLocation {
  documentId: string;
  page: number;
  boxes: readonly (readonly number[])[];
  /** Of which source it is the place. */
  number: number | null;
  /** Rises each time that it is asked for. */
  at: number;
}

/** Where a source stands, as the viewer wants it. */
export function placeOf(source: Pick<Source, 'document_id' | 'page' | 'boxes'> & { number?: number | null }): SourceLocation {
  return {
    documentId: source.document_id,
    page: source.page,
    boxes: source.boxes,
    number: source.number ?? null,
    at: 0,
  };
}
