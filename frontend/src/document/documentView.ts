/** What the document page shows. It is part of the address, so that it can be linked to and survives a reload. */

export interface DocumentView {
  extraction?: string;
  /** The path of a field. */
  field?: string;
  page?: number;
  /** The conversation in the sidebar: an id, `last`, or `new`. */
  chat?: string;
  /** Unmapped text is in the sidebar. */
  unmapped?: true;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseDocumentView(search: Record<string, unknown>): DocumentView {
  const { extraction, field, page, chat, unmapped } = search;
  return {
    ...(typeof extraction === 'string' && { extraction }),
    ...(typeof field === 'string' && { field }),
    ...(typeof page === 'number' && Number.isInteger(page) && page > 0 && { page }),
    ...(typeof chat === 'string' && { chat }),
    ...(unmapped === true && chat === undefined && { unmapped }),
  };
}
