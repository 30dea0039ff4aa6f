/** What the ask page shows: a conversation or passages, and which documents they are about. It is part of the address. */

export interface AskFilters {
  /** undefined: all documents. */
  stack?: string;
  /** The name of a tag. */
  tag?: string;
  /** A part of the file's name. */
  name?: string;
}

export interface AskView extends AskFilters {
  thread?: string;
  /** The text in the box for a new question. */
  question?: string;
  /** Words: the passages that have them, in place of a conversation. */
  find?: string;
}

const KEYS = ['thread', 'stack', 'tag', 'name', 'question', 'find'] as const;

/** Parse the search parameters of an address; drop invalid ones. */
export function parseAskView(search: Record<string, unknown>): AskView {
  return Object.fromEntries(
    KEYS.map((key) => [key, search[key]]).filter(([, one]) => typeof one === 'string' && one !== ''),
  );
}

export function filtersOf({ stack, tag, name }: AskView): AskFilters {
  return {
    ...(stack !== undefined && { stack }),
    ...(tag !== undefined && { tag }),
    ...(name !== undefined && { name }),
  };
}
