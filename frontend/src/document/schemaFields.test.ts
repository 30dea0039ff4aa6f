import { expect, test } from 'vitest';
import { schemaFields } from './schemaFields';

test('each field is a row, what is below it follows', () => {
  const item = { type: 'object', properties: { price: { type: ['number', 'null'] } } };
  const schema = { properties: { due: { type: 'string', format: 'date', description: 'When.' }, items: { type: 'array', items: item } } };
  expect(schemaFields(schema)).toEqual([
    { path: 'due', type: 'date', description: 'When.' },
    { path: 'items', type: 'array', description: '' },
    { path: 'items[*].price', type: 'number', description: '' },
  ]);
});

test('what is no schema has no rows', () => {
  expect(schemaFields({ properties: { a: true, b: null } })).toEqual([]);
  expect(schemaFields({ properties: [] })).toEqual([]);
});
