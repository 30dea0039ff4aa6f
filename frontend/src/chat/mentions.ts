/** `@` in a message names a thing of the organisation: what is being typed there, and which names still stand. */

export type MentionType = 'schema' | 'prompt' | 'tag' | 'document' | 'extraction';

export interface Mention {
  type: MentionType;
  id: string;
  name: string;
  /** What is said behind the name where it is chosen: its version, or that nobody has accepted it yet. */
  note?: string;
}

/** As many as the service takes with one message. */
export const MOST_MENTIONS = 10;

/** The word behind an `@` that the caret stands in, and where the `@` is; null: it stands in none. An `@` within a word
 * (an address of email) begins no mention. */
export function mentionAt(text: string, caret: number): { word: string; from: number } | null {
  const found = /(?:^|[\s(])@([^\s@]*)$/u.exec(text.slice(0, caret));
  if (found === null) return null;
  const word = found[1]!;
  return { word, from: caret - word.length - 1 };
}

/** The message with the name in place of what was typed, and where the caret is then. */
export function withMention(text: string, from: number, caret: number, name: string): { text: string; caret: number } {
  const before = `${text.slice(0, from)}@${name} `;
  return { text: before + text.slice(caret).replace(/^ /, ''), caret: before.length };
}

/** Those whose names still stand in the message. Each once. */
export function status(text: string, chosen: readonly Mention[]): Mention[] {
  const ids = new Set<string>();
  return chosen.filter((one) => {
    const stands = text.includes(`@${one.name}`) && !ids.has(one.id);
    ids.add(one.id);
    return stands;
  });
}
