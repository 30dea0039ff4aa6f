/** Tab-separated text, as spreadsheets read and write it. */

/** Return rows as tab-separated text. A text with a tab, a line break or a quote is quoted; one that a spreadsheet would run
 * as a formula gets an apostrophe. */
export function formatTsv(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => row.map(field).join('\t')).join('\r\n');
}

function field(text: string): string {
  const isFormula = /^[=@]|^[+-](?![\d.,]+$)/.test(text);
  const safe = isFormula ? `'${text}` : text;
  return /[\t\r\n"]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Parse tab-separated text. A field that starts with a quote ends at the next single quote. */
export function parseTsv(text: string): string[][] {
  const rows: string[][] = [[]];
  let at = 0;
  while (at <= text.length) {
    let value = '';
    if (text[at] === '"') {
      const [quoted, end] = quotedField(text, at + 1);
      value = quoted;
      at = end;
    }
    const end = endOfField(text, at);
    value += text.slice(at, end);
    rows.at(-1)!.push(value);
    if (end >= text.length) break;
    if (text[end] !== '\t') rows.push([]);
    at = end + (text[end] === '\r' && text[end + 1] === '\n' ? 2 : 1);
  }
  // Spreadsheets end the last row with a line break.
  if (rows.length > 1 && rows.at(-1)!.length === 1 && rows.at(-1)![0] === '') rows.pop();
  return rows;
}

function endOfField(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '\t' && text[at] !== '\r' && text[at] !== '\n') at += 1;
  return at;
}

/** Return a quoted field's text and the index after its closing quote. Without one, the quote is an ordinary character. */
function quotedField(text: string, from: number): [string, number] {
  let at = from;
  while (at < text.length) {
    if (text[at] !== '"') at += 1;
    else if (text[at + 1] === '"') at += 2;
    else return [text.slice(from, at).replaceAll('""', '"'), at + 1];
  }
  return ['"', from];
}
