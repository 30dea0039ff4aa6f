import { expect, test } from 'vitest';
import { toolText, type ShownCall } from './toolText';

const call = (tool: string, input: Record<string, unknown> = {}, rest: Partial<ShownCall> = {}): ShownCall => ({
  tool,
  input,
  message: 'As the service says it.',
  ...rest,
});

test.each([
  [call('update_field', { path: 'vendor.name', value: 'ACME' }), 'Change a field: Vendor › Name'],
  [
    call('extract_fields', { fields: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7 } }),
    'Save fields: A, B, C, D, E, F + 1',
  ],
  [call('search_document', { query: 'VAT' }), 'Search the document: “VAT”'],
  [call('search_document', { query: 'VAT' }, { details: { lines: 2 } }), 'Search the document: “VAT” (2 results)'],
  [call('get_document_text', { pages: '2-' }, { details: { pages: [1, 2, 3, 7] } }), 'Read pages: 1–3, 7'],
  [call('read_document', { document_id: 'd', page: 3 }, { files: ['a.pdf'] }), 'Read a document: a.pdf, Page 3'],
  [call('list_tags', {}, { details: { tags: [{}, {}] } }), 'List tags (2 results)'],
  [
    call('query_fields', {
      aggregates: [{ op: 'sum', path: 'total' }],
      group_by: { path: 'vendor' },
      where: { document_type: 'invoice', fields: [{ path: 'total', op: '>', value: 100 }] },
    }),
    'Calculate from fields: sum of Total, by Vendor, where Total > 100, invoice',
  ],
  [call('delete_tag', { tag: 'paid' }), 'Delete a tag: “paid”'],
  [call('a_newer_tool', { name: 'x' }), 'As the service says it.'],
])('%o', (given, text) => {
  expect(toolText(given)).toBe(text);
});
