import { expect, test } from 'vitest';
import { pathIn, suggestedPaths, valueFor } from './suggestedPaths';
import { compare, nearest, withId } from './unmappedItems';

const FIELDS = { total: 5, note: '', vendor: { name: 'Acme' }, items: [{ name: 'a', price: 1 }, { name: 'b' }] };
const of = (path: string, type: string) => ({ path, type, title: '', description: '', decimals: 0 });
const item = (first: number, page = 1) =>
  withId({
    page,
    kind: 'number',
    text: '4.711,00',
    value: 4711,
    boxes: [[0.1, 0.1, 0.2, 0.12]],
    first,
    before: '',
    last: first,
  });

test('empty fields are suggested, those of the right type first, the schema’s before others', () => {
  const schema = [
    of('total', 'number'),
    of('note', 'string'),
    of('due', 'date'),
    of('vendor', 'object'),
    of('net', 'number'),
  ];
  const known = [
    { path: 'tax', kinds: ['number'] },
    { path: 'net', kinds: ['number'] },
    { path: 'city', kinds: ['text', 'number'] },
  ];
  const paths = (kind: 'number' | 'date') => suggestedPaths(FIELDS, schema, known, kind).map((one) => one.path);
  expect(paths('number')).toEqual(['net', 'tax', 'note', 'city', 'due']);
  expect(paths('date')).toEqual(['due', 'city', 'note', 'net', 'tax']);
});

test.each([
  ['items[].price', 'items[1].price'],
  ['items[*].name', 'items[2].name'],
  ['lines[].price', 'lines[0].price'],
  ['items[].tags[].name', null],
  ['total', 'total'],
])('the path %s of every item is %s for one', (general, path) => expect(pathIn(FIELDS, general)).toBe(path));

test('a text field gets the printed text, a number field the number', () => {
  expect(valueFor(item(1), 'text')).toBe('4.711,00');
  expect(valueFor(item(1), 'number')).toBe(4711);
  expect(valueFor({ ...item(1), value: null }, 'number')).toBe('4.711,00');
});

test('the next item in reading order is selected, at the end the last one', () => {
  const items = [item(1), item(5), item(2, 2)];
  expect(nearest(items, item(3))).toBe(items[1]);
  expect(nearest(items, item(9))).toBe(items[2]);
  expect(nearest(items, item(3, 2))).toBe(items[2]);
  expect(nearest([], item(3))).toBeUndefined();
});

test('dates and amounts with cents come first on their page, then the rest in reading order', () => {
  const day = { ...item(7), kind: 'date' as const, text: '12 March' };
  const items = [
    { ...item(1), text: '10' },
    { ...item(2), text: 'A4' },
    { ...item(3), text: '1,312.505' },
    item(9),
    day,
  ];
  expect([...items, item(4, 2)].sort(compare).map((one) => one.first)).toEqual([7, 9, 1, 2, 3, 4]);
});
