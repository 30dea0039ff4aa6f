/** A snippet in parts: what was asked for, and what stands between. */

export interface Part {
  text: string;
  isMarked: boolean;
}

/** Marks count Unicode code points, and JavaScript's strings do not. */
export function markedParts(snippet: string, marks: readonly { start: number; end: number }[]): Part[] {
  const points = [...snippet];
  const parts: Part[] = [];
  let at = 0;
  for (const { start, end } of [...marks].sort((a, b) => a.start - b.start)) {
    if (start < at) continue; // it lies in the one before
    if (start > at) parts.push({ text: points.slice(at, start).join(''), isMarked: false });
    parts.push({ text: points.slice(start, end).join(''), isMarked: true });
    at = end;
  }
  if (at < points.length) parts.push({ text: points.slice(at).join(''), isMarked: false });
  return parts;
}
