/** Splitting a search snippet into matches and the text between them. */

export interface Part {
  text: string;
  isMarked: boolean;
}

/** `marks` count Unicode code points, unlike JavaScript's string indices. */
export function markedParts(snippet: string, marks: readonly { start: number; end: number }[]): Part[] {
  const points = [...snippet];
  const parts: Part[] = [];
  let at = 0;
  for (const { start, end } of [...marks].sort((a, b) => a.start - b.start)) {
    if (start < at) continue; // overlaps the previous mark
    if (start > at) parts.push({ text: points.slice(at, start).join(''), isMarked: false });
    parts.push({ text: points.slice(start, end).join(''), isMarked: true });
    at = end;
  }
  if (at < points.length) parts.push({ text: points.slice(at).join(''), isMarked: false });
  return parts;
}
