/** Mentions in a message: the one being typed after `@`, and those in the text. */

export type MentionType = 'schema' | 'prompt' | 'tag' | 'document' | 'extraction';

export interface Mention {
  type: MentionType;
  id: string;
  name: string;
  /** Shown after the name in the list: its version, or that it is not accepted yet. */
  note?: string;
}

/** The service's limit for one message. */
export const MAX_MENTIONS = 10;

/** Return the word after `@` at the caret, and the position of the `@`; null if there is none. An `@` within a word (an
 * email address) does not start a mention. */
export function mentionAt(text: string, caret: number): { word: string; from: number } | null {
  const found = /(?:^|[\s(])@([^\s@]*)$/u.exec(text.slice(0, caret));
  if (found === null) return null;
  const word = found[1]!;
  return { word, from: caret - word.length - 1 };
}

/** Return the message with the typed word replaced by the mention, and the caret position after it. */
export function withMention(text: string, from: number, caret: number, name: string): { text: string; caret: number } {
  const before = `${text.slice(0, from)}@${name} `;
  return { text: before + text.slice(caret).replace(/^ /, ''), caret: before.length };
}

/** Return the chosen mentions whose names are still in the message, each once. */
export function mentionedIn(text: string, chosen: readonly Mention[]): Mention[] {
  const ids = new Set<string>();
  return chosen.filter((one) => {
    const isMentioned = text.includes(`@${one.name}`) && !ids.has(one.id);
    ids.add(one.id);
    return isMentioned;
  });
}
