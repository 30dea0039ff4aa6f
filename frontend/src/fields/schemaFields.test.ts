import { expect, test } from 'vitest';
import { schemaFields, withTitles } from './schemaFields';

test('fields are listed in schema order, nested fields after their parent', () => {
  const item = { type: 'object', properties: { price: { type: ['number', 'null'], multipleOf: 0.01 } } };
  const schema = {
    properties: {
      due: { type: 'string', title: 'Due', format: 'date', description: 'When.' },
      items: { type: 'array', items: item },
    },
  };
  expect(schemaFields(schema)).toEqual([
    { path: 'due', type: 'date', title: 'Due', description: 'When.', decimals: 0 },
    { path: 'items', type: 'array', title: '', description: '', decimals: 0 },
    { path: 'items[*].price', type: 'number', title: '', description: '', decimals: 2 },
  ]);
});

test('an invalid schema has no fields', () => {
  expect(schemaFields({ properties: { a: true, b: null } })).toEqual([]);
  expect(schemaFields({ properties: [] })).toEqual([]);
});

const SCHEMA = {
  type: 'object',
  properties: {
    vendor: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    number: { type: 'string' },
    total: { type: 'number' },
  },
  required: ['vendor', 'total'],
};

test('fields get titles and are left out with the objects that they leave empty', () => {
  const changed = withTitles(
    SCHEMA,
    new Map([
      ['vendor.name', null],
      ['total', 'Amount'],
    ]),
  );
  expect(schemaFields(changed).map(({ path, title }) => [path, title])).toEqual([
    ['number', ''],
    ['total', 'Amount'],
  ]);
  expect(changed.required).toEqual(['total']);
  expect(withTitles(SCHEMA, new Map())).toEqual(SCHEMA);
});
