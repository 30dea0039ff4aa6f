/** The words of a page in lines, so that text can be marked, copied and found as it is read. */

import type { Word } from '../../api/types';

/** Words in the order of the page, broken where a new line begins. */
export function linesOf(words: readonly Word[]): Word[][] {
  const lines: Word[][] = [];
  for (const word of words) {
    const line = lines.at(-1);
    const before = line?.at(-1);
    // On the same line: the middle of the one lies within the other, and it does not lead back to the left.
    const middle = (word.y0 + word.y1) / 2;
    if (before !== undefined && middle > before.y0 && middle < before.y1 && word.x0 >= before.x0) line!.push(word);
    else lines.push([word]);
  }
  return lines;
}

let canvas: CanvasRenderingContext2D | null | undefined;

/** How wide a text would be, one pixel high, in the font of the layer. */
export function widthOf(text: string): number {
  canvas ??= document.createElement('canvas').getContext('2d');
  if (canvas == null) return text.length * 0.5;
  canvas.font = '100px sans-serif';
  return canvas.measureText(text).width / 100;
}
