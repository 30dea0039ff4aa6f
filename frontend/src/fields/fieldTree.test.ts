import { expect, test } from 'vitest';
import { fieldRows, marksByPage } from './fieldTree';
import type { RuleFix } from '../api/types';
import { childName, pathName, pathSteps } from './paths';

const NONE = { extracted_fields: {}, evidence: {}, confidence_scores: {}, locks: {}, statuses: {} };

test.each([
  [['vendor', 'name'], 'vendor.name'],
  [['items', 2, 'price'], 'items[2].price'],
  [['a.b', 'c'], '["a.b"].c'],
  [['two words', 'x'], 'two words.x'],
  [['say "hi"', 0, ']'], '["say \\"hi\\""][0]["]"]'],
])('%j is formatted as %s and parsed back', (steps, name) => {
  expect(pathName(steps)).toBe(name);
  expect(pathSteps(name)).toEqual(steps);
});

test.each(['a[', 'a["', 'a[x]', 'a..b', '[0'])('%s is not a path', (name) => expect(pathSteps(name)).toBeNull());

const field = (path: string) => ({ path, type: 'string', title: '', description: '', decimals: 0 });

test('fields of the schema come first in its order, others and list items as the service returns them', () => {
  const extraction = {
    ...NONE,
    extracted_fields: { z: 1, total: 3, items: [{ price: 2, a: 1 }, { price: 1 }], number: 'A' },
  };
  const schema = ['number', 'items', 'items[*].a', 'items[*].price', 'total'].map(field);
  const items = ['items', 'items[0]', 'items[0].a', 'items[0].price', 'items[1]', 'items[1].price'];
  expect(fieldRows({ extraction, schema }).map((row) => row.path)).toEqual(['number', ...items, 'total', 'z']);
  expect(fieldRows({ extraction }).map((row) => row.path)[0]).toBe('z');
});

test('previews and missing fields are placed by the schema', () => {
  // That of the whole document is no row.
  const statuses = {
    'vendor.name': { status: 'needs_review', reason: 'missing' },
    '': { status: 'needs_review', reason: 'breaks_schema' },
  } as const;
  const extraction = { ...NONE, extracted_fields: { total: 3, note: 'x' }, statuses };
  const schema = ['vendor', 'vendor.name', 'date', 'total', 'tax'].map(field);
  const previews = new Map([
    ['date', { callId: 'c', value: 1 }],
    ['odd', { callId: 'c', value: 1 }],
  ]);
  const rows = fieldRows({ extraction, schema, previews });
  expect(rows.map((row) => row.path)).toEqual(['vendor', 'vendor.name', 'date', 'total', 'note', 'odd']);
  expect(rows[1]).toMatchObject({
    kind: 'leaf',
    status: 'needs_review',
    reason: 'missing',
    value: undefined,
    field: schema[1],
  });
});

test('rows keep their order when values change, and new ones follow the field before them', () => {
  const order = new Set<string>();
  const paths = (extracted_fields: object) =>
    fieldRows({ extraction: { ...NONE, extracted_fields: extracted_fields as Record<string, unknown> }, order }).map(
      (row) => row.path,
    );
  expect(paths({ number: 'A', total: 3 })).toEqual(['number', 'total']);
  expect(paths({ total: 3, number: 'B' })).toEqual(['number', 'total']);
  expect(paths({ first: 1, total: 3, note: 'x', number: 'B' })).toEqual(['first', 'number', 'total', 'note']);
  expect(paths({ total: 4, note: 'x' })).toEqual(['total', 'note']);
  expect(paths({ number: 'C', note: 'x', total: 4 })).toEqual(['number', 'total', 'note']);
});

test('previews are rows and do not change stored values', () => {
  const extraction = { ...NONE, extracted_fields: { items: [{ a: 1 }] }, evidence: {} };
  const preview = { callId: 'c', value: 7 };
  const previews = new Map([
    ['items[1].a', preview],
    ['vendor.name', preview],
    ['items[9].a', preview],
    ['items.x', preview],
    ['__proto__.evil', preview],
  ]);
  const rows = fieldRows({ extraction, previews });
  expect(
    rows
      .filter((row) => row.kind === 'leaf' && row.status === 'preview')
      .map((row) => row.path)
      .sort(),
  ).toEqual(['items[1].a', 'vendor.name']);
  expect(extraction.extracted_fields).toEqual({ items: [{ a: 1 }] });
  expect(({} as Record<string, unknown>).evil).toBeUndefined();
  expect(marksByPage(rows).get(1)).toBeUndefined();
});

test('__proto__ is an ordinary key', () => {
  expect(childName('', '__proto__')).toBe('__proto__');
});

test('the error of a rule is shown at the fields it uses, and at the list items that another value would fix', () => {
  const status = { status: 'needs_review', reason: 'breaks_rule' } as const;
  const extraction = {
    ...NONE,
    extracted_fields: { total: 3, items: [{ price: 1 }, { price: 1 }], note: 'x' },
    statuses: { items: status, total: status },
  };
  const errors = [{ path: '', code: 'sum', message: 'No.', about: ['items', 'total'], params: {} }];
  const location = { page: 1, boxes: [], quote: '2', match: 'number' as const };
  const broken = (ruleFixes: readonly RuleFix[]) =>
    fieldRows({ extraction, errors, ruleFixes })
      .filter((row) => row.errors.length > 0)
      .map((row) => row.path);
  expect(broken([]).toSorted()).toEqual(['items', 'total']);
  expect(broken([{ path: 'items[1].price', value: 2, rule: 'sum', location }]).toSorted()).toEqual([
    'items',
    'items[1].price',
    'total',
  ]);
});
