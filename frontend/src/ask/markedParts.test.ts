import { expect, test } from 'vitest';
import { markedParts } from './markedParts';

const shown = (snippet: string, ...marks: [number, number][]) =>
  markedParts(
    snippet,
    marks.map(([start, end]) => ({ start, end })),
  )
    .map(({ text, isMarked }) => (isMarked ? `<${text}>` : text))
    .join('');

test('matches are marked and no text is lost', () => {
  expect(shown('the roof leaks', [4, 8])).toBe('the <roof> leaks');
  expect(shown('roof, roof', [6, 10], [0, 4])).toBe('<roof>, <roof>');
  expect(shown('roof')).toBe('roof');
  expect(shown('')).toBe('');
});

test('a character outside the basic plane counts once', () => {
  expect(shown('𝒳 roof', [2, 6])).toBe('𝒳 <roof>');
});

test('overlapping marks are skipped', () => {
  expect(shown('rooftop', [0, 7], [0, 4])).toBe('<rooftop>');
});
