/** Grouping the words of a page into lines, for the text layer. */

import type { Word } from '../api/types';

/** Group words, in page order, into lines. */
export function linesOf(words: readonly Word[]): Word[][] {
  const lines: Word[][] = [];
  for (const word of words) {
    const line = lines.at(-1);
    const before = line?.at(-1);
    // Same line: its middle is within the previous word's height, and it is to its right.
    const middle = (word.y0 + word.y1) / 2;
    if (before !== undefined && middle > before.y0 && middle < before.y1 && word.x0 >= before.x0) line!.push(word);
    else lines.push([word]);
  }
  return lines;
}

let canvas: CanvasRenderingContext2D | null | undefined;

/** Return the width of a text in the layer's font, at a font size of one pixel. */
export function widthOf(text: string): number {
  canvas ??= document.createElement('canvas').getContext('2d');
  if (canvas == null) return text.length * 0.5;
  canvas.font = '100px sans-serif';
  return canvas.measureText(text).width / 100;
}
