import { describe, expect, it } from 'vitest';
import {
  addField,
  compare,
  moveField,
  removeField,
  rowsOf,
  rulesBetween,
  setRequired,
  setShape,
  setType,
} from './schemaModel';

const INVOICE = {
  type: 'object',
  required: ['number'],
  properties: {
    number: { type: 'string', pattern: '^RE' },
    dueDate: { type: ['string', 'null'], format: 'date', description: 'The last day to pay.' },
    total: { type: 'number' },
    items: { type: 'array', items: { type: 'object' } },
  },
  'x-fieldmark': { rules: [{ sum: ['net', 'tax'], equals: 'total' }], required: { dueDate: true } },
};

describe('rows of a schema', () => {
  it('have type, label and whether they are required', () => {
    expect(rowsOf(INVOICE).map(({ label, type, isRequired }) => [label, type, isRequired])).toEqual([
      ['Number', 'text', true],
      ['Due Date', 'date', true],
      ['Total', 'number', false],
      ['Items', 'rows', false],
    ]);
  });

  it('a field that may be null is required by the table, another by the schema', () => {
    const off = setRequired(setRequired(INVOICE, 'dueDate', false), 'number', false);
    expect(off).not.toHaveProperty('required');
    expect(off['x-fieldmark']).toMatchObject({ required: { dueDate: false } });
    expect(setRequired(INVOICE, 'total', true)).toMatchObject({ required: ['number', 'total'] });
    // Back as it was, nothing is said that was not said before.
    const automatic = { ...INVOICE, 'x-fieldmark': { rules: INVOICE['x-fieldmark'].rules } };
    expect(rowsOf(automatic).map(({ isAutomatic }) => isAutomatic)).toEqual([false, true, false, false]);
    expect(setRequired(setRequired(automatic, 'dueDate', true, automatic), 'dueDate', false, automatic)).toEqual(
      automatic,
    );
  });

  it('keep what a row cannot say', () => {
    const next = removeField(moveField(INVOICE, 2, 0), 'dueDate');
    expect(Object.keys(next.properties as object)).toEqual(['total', 'number', 'items']);
    expect(next['x-fieldmark']).toEqual({ rules: INVOICE['x-fieldmark'].rules });
    expect(addField(INVOICE, 'Total').properties).toMatchObject({ total_2: { title: 'Total' } });
    expect(addField(INVOICE, 'Order no.').properties).toHaveProperty('order_no');
  });

  it('another type keeps the description, and null if it was allowed', () => {
    expect(setType(INVOICE.properties.dueDate, 'number')).toEqual({
      type: ['number', 'null'],
      description: 'The last day to pay.',
    });
  });
});

describe('a comparison', () => {
  it('names what differs in each field, and the order', () => {
    const shape = { ...INVOICE.properties.total, minimum: 0 };
    const next = addField(
      setRequired(setShape(removeField(INVOICE, 'items'), 'total', shape), 'number', false),
      'If paid early',
    );
    expect(compare(INVOICE, next).fields.map(({ key, kind, what }) => [key, kind, ...what])).toEqual([
      ['number', 'changed', 'nowOptional'],
      ['total', 'changed', 'rule'],
      ['if_paid_early', 'added', 'optional'],
      ['items', 'removed'],
    ]);
    const moved = [moveField(INVOICE, 0, 2), moveField(INVOICE, 2, 0), moveField(INVOICE, 0, 3), INVOICE];
    expect(moved.map((one) => compare(INVOICE, one))).toEqual(
      [
        { moved: 'Number', before: 'Items' },
        { moved: 'Total', before: 'Number' },
        { moved: 'Number', before: null },
        null,
      ].map((order) => ({ fields: [], order, rules: false })),
    );
    expect(compare(INVOICE, moveField(moveField(INVOICE, 0, 3), 0, 2)).order).toBe('many');
    expect(compare(INVOICE, { ...INVOICE, 'x-fieldmark': {} }).rules).toBe(true);
  });

  it('rules between fields are a line each', () => {
    expect(rulesBetween(INVOICE)).toEqual([{ text: 'Total = net + tax', fields: ['total', 'net', 'tax'] }]);
  });
});
