import { expect, test } from 'vitest';
import type { Evidence } from '../../api/types';
import { fieldRows, marksByPage } from './fieldTree';
import type { RuleFix } from '../../api/types';
import { childName, pathName, pathSteps } from './paths';

const at = (page: number, y: number, x = 0.1): Evidence => ({
  state: 'found', match: 'exact', page, boxes: [[x, y, x + 0.1, y + 0.02]], quote: 'q', location_count: 1, claim: null,
});
const NONE = { extracted_fields: {}, evidence: {}, confidence_scores: {}, locks: {}, proposals: [] };

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
  const extraction = { ...NONE, extracted_fields: { z: 1, total: 3, items: [{ price: 2, a: 1 }, { price: 1 }], number: 'A' } };
  const schema = ['number', 'items', 'items[*].a', 'items[*].price', 'total'].map(field);
  const items = ['items', 'items[0]', 'items[0].a', 'items[0].price', 'items[1]', 'items[1].price'];
  expect(fieldRows({ extraction, schema }).map((row) => row.path)).toEqual(['number', ...items, 'total', 'z']);
  expect(fieldRows({ extraction }).map((row) => row.path)[0]).toBe('z');
});

test('previews and missing fields are placed by the schema', () => {
  const extraction = { ...NONE, extracted_fields: { total: 3, note: 'x' } };
  const schema = ['vendor', 'vendor.name', 'date', 'total', 'tax'].map(field);
  const errors = [{ path: 'vendor.name', code: 'required', message: 'm', about: [], params: {} }];
  const previews = new Map([['date', { callId: 'c', value: 1 }], ['odd', { callId: 'c', value: 1 }]]);
  const rows = fieldRows({ extraction, schema, errors, previews });
  expect(rows.map((row) => row.path)).toEqual(['vendor', 'vendor.name', 'date', 'total', 'note', 'odd']);
  expect(rows[1]).toMatchObject({ kind: 'leaf', status: 'missing', value: undefined, field: schema[1] });
});

test('rows keep their order when values change, and new ones follow the field before them', () => {
  const order = new Set<string>();
  const paths = (extracted_fields: object) =>
    fieldRows({ extraction: { ...NONE, extracted_fields: extracted_fields as Record<string, unknown> }, order }).map((row) => row.path);
  expect(paths({ number: 'A', total: 3 })).toEqual(['number', 'total']);
  expect(paths({ total: 3, number: 'B' })).toEqual(['number', 'total']);
  expect(paths({ first: 1, total: 3, note: 'x', number: 'B' })).toEqual(['first', 'number', 'total', 'note']);
  expect(paths({ total: 4, note: 'x' })).toEqual(['total', 'note']);
  expect(paths({ number: 'C', note: 'x', total: 4 })).toEqual(['number', 'total', 'note']);
});

test('a value has its most urgent status', () => {
  const lock = { by: 'u', at: '2026-01-01T00:00:00Z' };
  const extraction = {
    ...NONE,
    extracted_fields: { broken: 1, locked: 2, lost: 3, unsure: 4, found: 5, blank: null, stated: 6 },
    evidence: {
      broken: at(1, 0.1), locked: at(1, 0.2), unsure: at(1, 0.3), found: at(1, 0.4),
      lost: { ...at(1, 0), state: 'not_found' as const, page: null, boxes: [] }, blank: { ...at(1, 0), state: 'blank' as const },
    },
    confidence_scores: { unsure: 0.3, found: 0.9, lost: 0 },
    locks: { locked: lock, broken: lock },
  };
  const errors = [{ path: 'broken', code: 'rule', message: 'No.', about: [], params: {} }];
  const statuses = Object.fromEntries(fieldRows({ extraction, errors }).map((row) => [row.path, row.kind === 'leaf' && row.status]));
  expect(statuses).toEqual({ broken: 'broken', locked: 'locked', lost: 'not_found', unsure: 'unsure', found: 'found', blank: 'blank', stated: 'stated' });
});

test('previews are rows and do not change stored values', () => {
  const extraction = { ...NONE, extracted_fields: { items: [{ a: 1 }] }, evidence: {} };
  const preview = { callId: 'c', value: 7 };
  const previews = new Map([
    ['items[1].a', preview], ['vendor.name', preview], ['items[9].a', preview], ['items.x', preview], ['__proto__.evil', preview],
  ]);
  const rows = fieldRows({ extraction, previews });
  expect(rows.filter((row) => row.kind === 'leaf' && row.status === 'preview').map((row) => row.path).sort()).toEqual(['items[1].a', 'vendor.name']);
  expect(extraction.extracted_fields).toEqual({ items: [{ a: 1 }] });
  expect(({} as Record<string, unknown>).evil).toBeUndefined();
  expect(marksByPage(rows).get(1)).toBeUndefined();
});

test('__proto__ is an ordinary key', () => {
  expect(childName('', '__proto__')).toBe('__proto__');
});

test('a failed rule marks the fields it uses, and the list items that another value would fix', () => {
  const extraction = {
    extracted_fields: { total: 3, items: [{ price: 1 }, { price: 1 }], note: 'x' },
    evidence: {}, confidence_scores: {}, locks: {}, proposals: [],
  };
  const errors = [{ path: '', code: 'sum', message: 'No.', about: ['items', 'total'], params: {} }];
  const location = { page: 1, boxes: [], quote: '2', match: 'number' as const };
  const broken = (ruleFixes: readonly RuleFix[]) =>
    fieldRows({ extraction, errors, ruleFixes }).filter((row) => row.kind === 'leaf' && row.status === 'broken').map((row) => row.path);
  expect(broken([])).toEqual(['total']);
  expect(broken([{ path: 'items[1].price', value: 2, rule: 'sum', location }]).toSorted()).toEqual(['items[1].price', 'total']);
});
