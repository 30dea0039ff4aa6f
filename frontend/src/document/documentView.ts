/** What the document page shows. It is part of the address, so that it can be linked to and survives a reload. */

export interface DocumentView {
  extraction?: string;
  /** The path of a field. */
  field?: string;
  page?: number;
  /** The conversation beside the pages: an id, `last`, or `new`. */
  chat?: string;
  /** Unmapped text, or what happened, is beside the pages. */
  unmapped?: true;
  activity?: true;
  /** The table that it was opened from: the way back. */
  table?: string;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseDocumentView(search: Record<string, unknown>): DocumentView {
  const { extraction, field, page, chat, unmapped, activity, table } = search;
  return {
    ...(typeof extraction === 'string' && { extraction }),
    ...(typeof field === 'string' && { field }),
    ...(typeof page === 'number' && Number.isInteger(page) && page > 0 && { page }),
    ...(typeof chat === 'string' && { chat }),
    ...(unmapped === true && chat === undefined && { unmapped }),
    ...(activity === true && chat === undefined && unmapped !== true && { activity }),
    ...(typeof table === 'string' && { table }),
  };
}
