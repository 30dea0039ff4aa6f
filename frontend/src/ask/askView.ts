/** What the ask page shows: a conversation, and the stack that the next question is about. It is part of the address. */

export interface AskView {
  thread?: string;
  /** undefined: all documents. */
  stack?: string;
  /** The text in the box for a new question. */
  question?: string;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseAskView({ thread, stack, question }: Record<string, unknown>): AskView {
  return {
    ...(typeof thread === 'string' && { thread }),
    ...(typeof stack === 'string' && stack !== '' && { stack }),
    ...(typeof question === 'string' && question !== '' && { question }),
  };
}
