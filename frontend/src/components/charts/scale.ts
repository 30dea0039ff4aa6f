/** The axis of a chart. */

/** Return the lines of an axis from 0: three to six of them, at 1, 2 or 5 times a power of ten. The last is at least
 * `most`. */
export function axisLines(most: number): number[] {
  if (most <= 0) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(most / 3));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => most / one <= 5)!;
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

/** Return the indexes of at most `most` labels, at equal distances from the first. */
export function labelled(count: number, most: number): Set<number> {
  const every = Math.max(Math.ceil(count / most), 1);
  return new Set(Array.from({ length: count }, (_, index) => index).filter((index) => index % every === 0));
}
