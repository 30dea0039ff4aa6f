import { expect, test } from 'vitest';
import { editedInput, inputPathOf } from './editedInput';

const extract = {
  fields: { total: 1, vendor: { name: 'A' }, items: [{ price: 2 }], 'a.b': 3 },
  confidences: { total: 0.9 },
};

test('the value of a change is found in the input', () => {
  expect(inputPathOf(extract, 'total')).toEqual(['fields', 'total']);
  expect(inputPathOf(extract, 'items[0].price')).toEqual(['fields', 'items', 0, 'price']);
  expect(inputPathOf(extract, '["a.b"]')).toEqual(['fields', 'a.b']);
  expect(inputPathOf({ path: 'total', value: 1 }, 'total')).toEqual(['value']);
  expect(inputPathOf({ document_id: 'a', values: { items: [{ price: 2 }] } }, 'items[0].price')).toEqual([
    'values',
    'items',
    0,
    'price',
  ]);
});

test('a value that is not in the input is null', () => {
  expect(inputPathOf(extract, 'other')).toBeNull();
  expect(inputPathOf(extract, 'constructor')).toBeNull();
  expect(inputPathOf({ name: 'Invoices', schema: {} }, 'name')).toBeNull();
  expect(inputPathOf({ document_id: 'a', values: null }, 'document')).toBeNull();
  expect(inputPathOf({ path: 'vat', value: 1 }, 'total')).toBeNull();
});

test('edits change a copy of the input', () => {
  const edited = editedInput(extract, [
    { place: ['fields', 'total'], value: 5 },
    { place: ['fields', 'items', 0, 'price'], value: '7' },
    { place: ['fields', '__proto__', 'polluted'], value: true },
  ]);
  expect(edited).toEqual({ ...extract, fields: { ...extract.fields, total: 5, items: [{ price: '7' }] } });
  expect(extract.fields.total).toBe(1);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});
