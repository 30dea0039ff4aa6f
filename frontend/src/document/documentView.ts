/** Where in a document somebody looks: kept in the address, so that it can be linked to and survives a reload. */

export interface Place {
  extraction?: string;
  /** The path of a field. */
  field?: string;
  page?: number;
  /** The conversation beside it (an id, `last`, or `new` for one that has not begun). Left out: the fields are beside it. */
  chat?: string;
  /** What no field claims is beside it. */
  unmapped?: true;
}

/** What of an address is such a place. */
export function parseDocumentView(search: Record<string, unknown>): Place {
  const { extraction, field, page, chat, unmapped } = search;
  return {
    ...(typeof extraction === 'string' && { extraction }),
    ...(typeof field === 'string' && { field }),
    ...(typeof page === 'number' && Number.isInteger(page) && page > 0 && { page }),
    ...(typeof chat === 'string' && { chat }),
    ...(unmapped === true && chat === undefined && { unmapped }),
  };
}
