import { expect, test } from 'vitest';
import { markedParts } from './markedParts';

const shown = (snippet: string, ...marks: [number, number][]) =>
  markedParts(snippet, marks.map(([start, end]) => ({ start, end }))).map(({ text, isMarked }) => (isMarked ? `<${text}>` : text)).join('');

test('what was asked for is marked, and nothing is lost', () => {
  expect(shown('the roof leaks', [4, 8])).toBe('the <roof> leaks');
  expect(shown('roof, roof', [6, 10], [0, 4])).toBe('<roof>, <roof>');
  expect(shown('roof')).toBe('roof');
  expect(shown('')).toBe('');
});

test('a character beyond the first plane counts once', () => {
  expect(shown('𝒳 roof', [2, 6])).toBe('𝒳 <roof>');
});

test('a mark inside another is left out', () => {
  expect(shown('rooftop', [0, 7], [0, 4])).toBe('<rooftop>');
});
