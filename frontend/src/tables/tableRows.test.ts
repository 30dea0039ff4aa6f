/** Rows of a table after a change, columns and addresses. */

import { expect, test } from 'vitest';
import type { Extraction, RecordCell, RecordRow, RecordsPage } from '../api/types';
import { t } from '../shared/i18n';
import { CELL_STATUSES, cellStatus, cellStatusText, needsLook, proposalText, rowStatus } from './cellStatus';
import { cellPath, columnLabel, gridColumns } from './gridColumns';
import { exportAddress } from './tableQueries';
import { conditionText, nextSort, parseTableView } from './tableView';
import { pageWith } from './useCellEdits';

const cell = (more: Partial<RecordCell>): RecordCell => ({
  path: 'total', status: 'found', reason: null, value: 5, kind: 'number', currency: 'EUR', state: 'found', confidence: 0.9, is_verified: true, page: 1, quote: '5.00', ...more,
});
const row = (id: string, more: Partial<RecordRow> = {}) =>
  ({ extraction_id: id, document_id: 'd', filename: 'a.pdf', created_at: '', version: 1, is_reviewed: false, path: null, status: 'done', cells: {}, ...more }) as RecordRow;

test('a change updates all rows of its extraction and no others', () => {
  const columns = [
    { path: 'total', type: 'number', title: null },
    { path: 'items[].price', type: 'number', title: null },
  ] as const;
  const items = [row('a', { path: 'items[0]', cells: { total: cell({}) } }), row('a', { path: 'items[1]' }), row('b', { path: 'items[0]' })];
  const page = { columns: [...columns], has_more_columns: false, items, lists: ['items'], total: 3, totals: [], marks: [] } satisfies RecordsPage;
  const now = {
    id: 'a', version: 2, status: 'in_progress', reviewed_by: null, locks: { 'items[1].price': {} }, confidence_scores: {}, proposals: [],
    extracted_fields: { total: 7, items: [{ price: 1 }, { price: 2 }] }, evidence: { total: { state: 'not_found', page: null, quote: null } },
  } as unknown as Extraction;
  const changed = pageWith(page, now).items;
  expect(changed.map(({ version }) => version)).toEqual([2, 2, 1]);
  expect(changed[2]).toBe(items[2]);
  expect(changed.map(({ status }) => status)).toEqual(['incomplete', 'incomplete', 'done']);
  expect(changed[1]!.cells['items[].price']).toMatchObject({ path: 'items[1].price', value: 2 });
  expect(changed.map(({ cells }) => cellStatus(cells.total))).toEqual(['needs_review', 'needs_review', 'not_written']);
  expect(cellStatus(changed[1]!.cells['items[].price'])).toBe('locked');
  expect(changed[0]!.cells.total!.currency).toBe('EUR');
});

const total = { path: 'total', type: 'number', title: null } as const;
const broken = [{ path: 'total', about: [] }];
test.each([
  ['of a proposal', { proposals: [{ path: 'total', new: 8 }], errors: broken }, 'proposal'],
  ['that breaks the schema', { errors: broken }, 'breaks_schema'],
  ['that a rule compares', { errors: [{ path: '', about: ['total', 'tax'] }] }, null],
  ['that a rule compares, all confirmed', { errors: [{ path: '', about: ['total'] }] }, 'breaks_schema'],
  ['of another type than the column', { extracted_fields: { total: 'x' }, locks: {} }, 'breaks_schema'],
  ['on no page', { locks: {} }, 'not_found'],
  ['confirmed', {}, null],
] as const)('a cell %s says why it needs review', (_, more, reason) => {
  const page = { columns: [total], items: [row('a', { cells: { total: cell({}) } })], lists: [], total: 1, totals: [], marks: [] } as unknown as RecordsPage;
  const now = {
    id: 'a', version: 2, status: 'completed', reviewed_by: null, locks: { total: {} }, confidence_scores: {}, proposals: [], extracted_fields: { total: 7 },
    evidence: { total: { state: 'not_found', page: null, quote: null } }, errors: [], ...more,
  } as unknown as Extraction;
  const changed = pageWith(page, now).items[0]!.cells.total!;
  expect([changed.status, changed.reason]).toEqual([reason === null ? 'locked' : 'needs_review', reason]);
});

test('the words for a proposal', () => {
  const proposals = [{ path: 'items', new: [{ price: 8 }] }] as unknown as Extraction['proposals'];
  expect(proposalText(proposals, 'items[0].price')).toBe('Another value is proposed: 8. It changes all of Items.');
  expect(proposalText(proposals, 'items[1].price')).toBe('Its removal is proposed. It changes all of Items.');
  expect(proposalText([{ path: 'total', new: 8 }] as unknown as Extraction['proposals'], 'total')).toBe('Another value is proposed: 8');
  expect(proposalText(proposals, 'total')).toBeUndefined();
});

test('a row counts the cells that need a look, until it is reviewed', () => {
  const cells = { a: cell({ status: 'unclear' }), b: cell({}), c: cell({ status: 'needs_review' }), d: cell({ status: 'not_in_document', value: null }) };
  expect(rowStatus(row('a', { cells }))).toEqual({ status: 'to_check', count: 2 });
  expect(rowStatus(row('a', { cells, is_reviewed: true })).status).toBe('reviewed');
  expect(rowStatus(row('a')).status).toBe('done');
  expect(rowStatus(row('a', { cells, status: 'stale', is_reviewed: true })).status).toBe('stale');
});

test.each([
  [0.4, 'doubted'],
  [null, 'illegible'],
  [0.9, 'illegible'],
] as const)('an unclear cell whose agent has the confidence %s is %s', (confidence, reason) => {
  const unclear = cell({ status: 'unclear', reason: 'low_confidence' });
  expect(cellStatusText(unclear, { claim: { confidence, quote: null, page: null } })).toBe(t(`tables.unclearReasons.${reason}`));
  expect(cellStatusText(unclear)).toBe(t('tables.reviewReasons.low_confidence'));
});

test('the filter of what is to be reviewed asks for the statuses that a row counts', () => {
  const address = exportAddress({ of: { stack: 's' }, ...parseTableView({ cells: 'to_review' }) }, 'csv');
  const asked = new URL(address, 'http://x').searchParams.getAll('cell_status');
  const counted = Object.keys(CELL_STATUSES).filter((status) => needsLook(cell({ status: status as RecordCell['status'] })));
  expect(asked.toSorted()).toEqual(counted.toSorted());
});

test.each([
  ['total', null, 'total'],
  ['items[].price', 'items[2]', 'items[2].price'],
  ['a[].b[].c', 'a[1].b[3]', 'a[1].b[3].c'],
  ['a[].x', 'a[1].b[3]', 'a[1].x'],
])('the cell of column %s in row %s is %s', (column, of, path) => expect(cellPath(column, of)).toBe(path));

test('columns without a title have their path in plain words, without the list of the rows', () => {
  const label = (path: string, list?: string) => columnLabel({ path, title: null, type: 'text' }, list);
  expect(columnLabel({ path: 'load', title: null, type: 'number', unit: 'kg' })).toBe('Load (kg)');
  expect([label('vendor.name'), label('items[].unit_price', 'items'), label('items[].unit_price')]).toEqual(['Vendor › Name', 'Unit price', 'Items › Unit price']);
});

test('text columns fill the space; resized columns keep their width', () => {
  const columns = [{ path: 'a', type: 'text', title: null }, { path: 'b', type: 'number', title: null }, { path: 'c', type: 'text', title: null }] as const;
  const widths = gridColumns(columns, { hidden: [], widths: { c: 70 } }, new Map(), 400).map(({ width }) => width);
  expect(widths).toEqual([234, 96, 70]);
  const long = new Map([['a', { length: 40, decimals: 0 }]]);
  const [narrow, cut] = [400, 300].map((available) => gridColumns(columns, { hidden: [], widths: {} }, long, available).map(({ width }) => width));
  expect(narrow).toEqual([200, 96, 104]);
  expect(cut).toEqual([260, 96, 104]); // they would not fit: the table is scrolled
});

test('a view is read from the address, without what is not valid', () => {
  const filter = [{ path: 'total', op: '>', value: '5' }, { path: 'x', op: 'like', value: '1' }, { path: 'x', op: 'exists', value: '1' }, { path: 'y', op: 'missing' }, { op: '=' }];
  const view = parseTableView({ filter, sort: 'total', descending: true, list: '', cells: 'locked', state: 'other' });
  expect(view).toEqual({ filter: [filter[0], filter[3]], cells: 'locked', sort: 'total', descending: true });
  expect(view.filter!.map(conditionText)).toEqual(['total > 5', 'y missing']);
  expect(parseTableView({ byStatus: true })).toEqual({ byStatus: true });
  expect(nextSort({ cells: 'locked' }, 'a')).toEqual({ cells: 'locked', sort: 'a' });
  expect(nextSort({ sort: 'a', descending: true }, null)).toEqual({ byStatus: true });
  expect(nextSort({ byStatus: true }, null)).toEqual({});
  expect(nextSort({ byStatus: true }, 'a')).toEqual({ sort: 'a' });
  expect(nextSort({ sort: 'a' }, 'a')).toEqual({ sort: 'a', descending: true });
  expect(nextSort({ sort: 'a', descending: true }, 'a')).toEqual({});
});
