import { expect, test } from 'vitest';
import { excerpt } from './Crop';

const word = (x0: number, x1: number, y0 = 0.1) => ({ x0, y0, x1, y1: y0 + 0.02 });
const LINE = [word(0.1, 0.2), word(0.3, 0.38), word(0.39, 0.45), word(0.5, 0.6), word(0.39, 0.45, 0.2)];

test('an excerpt has the label before the value', () => {
  const [left, , right] = excerpt([0.5, 0.1, 0.6, 0.12], LINE, 0.3);
  expect([left, right]).toEqual([expect.closeTo(0.296), expect.closeTo(0.604)]);
});

test('the text before the value is shown whole, or not at all', () => {
  const [left] = excerpt([0.5, 0.1, 0.6, 0.12], LINE, 0.215);
  expect(left).toBeCloseTo(0.496);
});

test('an excerpt of a long value ends after a whole word', () => {
  const [left, , right] = excerpt([0.1, 0.1, 0.7, 0.12], [...LINE, word(0.61, 0.7)], 0.24);
  expect([left, right]).toEqual([expect.closeTo(0.096), expect.closeTo(0.604)]);
});
