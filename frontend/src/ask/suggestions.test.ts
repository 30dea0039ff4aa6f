import { expect, test } from 'vitest';
import type { KnownField } from '../api/types';
import { suggestedQuestions } from './suggestions';

const field = (path: string, kind: KnownField['kinds'][number], documents: number, distinct: number): KnownField => ({
  document_type: 'invoice',
  path,
  documents,
  distinct_values: distinct,
  kinds: [kind],
});
const FIELDS = [
  field('number', 'text', 9, 9),
  field('vat_rate', 'number', 9, 2),
  field('currency', 'text', 9, 2),
  field('net_amount', 'number', 8, 8),
  field('vendor.name', 'text', 8, 3),
  field('invoice_date', 'day', 8, 8),
  field('items[].total', 'number', 9, 20),
];

test('questions group amounts by fields whose values repeat', () => {
  expect(suggestedQuestions(FIELDS)).toEqual([
    'Sum of net amount by vendor name',
    'Sum of net amount by month of invoice date',
    'What is the highest net amount?',
    'Sum of net amount',
  ]);
});

test('questions are about the total of documents that have one', () => {
  expect(suggestedQuestions([...FIELDS, field('total', 'number', 8, 7)])).toContain('Sum of total');
});

test('questions that were asked are not suggested again', () => {
  expect(suggestedQuestions(FIELDS, ['Sum of net amount'])).not.toContain('Sum of net amount');
  expect(suggestedQuestions([field('name', 'text', 3, 1)])).toEqual([]);
});
