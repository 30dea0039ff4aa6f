/** Rows of a table after a change, columns and addresses. */

import { expect, test } from 'vitest';
import type { Extraction, RecordCell, RecordRow, RecordsPage } from '../api/types';
import { t } from '../shared/i18n';
import { cellStatus, cellStatusText, needsLook, rowStatus } from '../tables/cellStatus';
import { CELL_STATUSES } from './statuses';
import { cellPath, columnLabel, gridColumns } from '../tables/gridColumns';
import { countMoved, exportAddress, inPlace, type LoadedPage } from './tableQueries';
import { conditionText, nextSort, parseTableView } from './tableView';
import { pageWith } from '../tables/useCellEdits';

const cell = (more: Partial<RecordCell>): RecordCell => ({
  path: 'total',
  status: 'found',
  reason: null,
  value: 5,
  kind: 'number',
  currency: 'EUR',
  state: 'found',
  confidence: 0.9,
  is_verified: true,
  page: 1,
  quote: '5.00',
  ...more,
});
const row = (id: string, more: Partial<RecordRow> = {}) =>
  ({
    extraction_id: id,
    document_id: 'd',
    filename: 'a.pdf',
    created_at: '',
    version: 1,
    is_reviewed: false,
    review_count: 0,
    document_review_count: 0,
    path: null,
    status: 'done',
    cells: {},
    ...more,
  }) as RecordRow;

test('a change updates all rows of its extraction and no others', () => {
  const columns = [
    { path: 'total', type: 'number', title: null },
    { path: 'items[].price', type: 'number', title: null },
  ] as const;
  const items = [
    row('a', { path: 'items[0]', cells: { total: cell({}) } }),
    row('a', { path: 'items[1]' }),
    row('b', { path: 'items[0]' }),
  ];
  const page = {
    columns: [...columns],
    has_more_columns: false,
    required: [],
    items,
    lists: ['items'],
    total: 3,
    totals: [],
    marks: [],
  } satisfies RecordsPage;
  const statuses = {
    total: { status: 'needs_review', reason: 'not_found' },
    'items[0].name': { status: 'unclear', reason: 'low_confidence' },
    'items[1].price': { status: 'confirmed', reason: 'person' },
  };
  const now = {
    id: 'a',
    version: 2,
    status: 'in_progress',
    reviewed_by: null,
    review_count: 2,
    locks: { 'items[1].price': {} },
    confidence_scores: {},
    proposals: [],
    statuses,
    extracted_fields: { total: 7, items: [{}, { price: 2 }] },
    evidence: { total: { state: 'not_found', page: null, quote: null } },
  } as unknown as Extraction;
  const changed = pageWith(page, now).items;
  expect(changed.map(({ version }) => version)).toEqual([2, 2, 1]);
  expect(changed[2]).toBe(items[2]);
  expect(changed.map(({ status }) => status)).toEqual(['incomplete', 'incomplete', 'done']);
  expect(changed[1]!.cells['items[].price']).toMatchObject({ path: 'items[1].price', value: 2 });
  // An item counts its own fields and those of the document, and none of other items.
  expect(changed.map(({ review_count }) => review_count)).toEqual([2, 1, 0]);
  expect(changed.map(({ document_review_count }) => document_review_count)).toEqual([2, 2, 0]);
  const none = { status: 'not_written', reason: null };
  expect(changed.map(({ cells }) => cellStatus(cells.total))).toEqual([statuses.total, statuses.total, none]);
  expect(changed.map(({ cells }) => cellStatus(cells['items[].price']))).toEqual([
    none,
    statuses['items[1].price'],
    none,
  ]);
  expect(changed[0]!.cells.total!.currency).toBe('EUR');
});

test('a stale cell stays stale until a person sets or confirms its value', () => {
  const page = {
    columns: [{ path: 'total', type: 'number', title: null }],
    items: [row('a', { cells: { total: cell({ status: 'stale' }) } })],
  } as unknown as RecordsPage;
  const now = {
    id: 'a',
    version: 2,
    status: 'completed',
    extracted_fields: { total: 5 },
    evidence: {},
    confidence_scores: {},
    locks: {},
    statuses: { total: { status: 'found', reason: null } },
  };
  const after = (more: object) =>
    pageWith(page, { ...now, ...more } as unknown as Extraction).items[0]!.cells.total!.status;
  expect(after({})).toBe('stale');
  expect(after({ locks: { total: {} }, statuses: { total: { status: 'confirmed', reason: null } } })).toBe('confirmed');
});

test('the badge of a row counts its fields that a person has to look at', () => {
  expect(rowStatus(row('a', { review_count: 2 }))).toEqual({ status: 'to_check', count: 2 });
  expect(rowStatus(row('a', { review_count: 2, is_reviewed: true })).status).toBe('to_check');
  expect(rowStatus(row('a', { is_reviewed: true })).status).toBe('reviewed');
  expect(rowStatus(row('a')).status).toBe('done');
  expect(rowStatus(row('a', { status: 'stale', is_reviewed: true })).status).toBe('stale');
});

test.each([
  [0.4, 'doubted'],
  [null, 'illegible'],
  [0.9, 'illegible'],
] as const)('an unclear cell whose agent has the confidence %s is %s', (confidence, reason) => {
  const unclear = cell({ status: 'unclear', reason: 'low_confidence', confidence: 0.4 });
  expect(cellStatusText(unclear, { claim: { confidence, quote: null, page: null } })).toBe(t(`fields.why.${reason}`));
  expect(cellStatusText(unclear)).toBe(t('fields.why.low_confidence'));
});

test('the filter of what is to be reviewed asks for the statuses that a person should look at', () => {
  const address = exportAddress({ table: 's', ...parseTableView({ cells: 'to_review' }) }, 'csv');
  const asked = new URL(address, 'http://x').searchParams.getAll('cell_status');
  const counted = CELL_STATUSES.filter((status) => needsLook(cell({ status })));
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
  expect([label('vendor.name'), label('items[].unit_price', 'items'), label('items[].unit_price')]).toEqual([
    'Vendor › Name',
    'Unit price',
    'Items › Unit price',
  ]);
});

test('text columns fill the space; resized columns keep their width', () => {
  const columns = [
    { path: 'a', type: 'text', title: null },
    { path: 'b', type: 'number', title: null },
    { path: 'c', type: 'text', title: null },
  ] as const;
  const resized = gridColumns(columns, { decimals: {}, hidden: [], widths: { c: 70 } }, new Map(), 400).map(
    ({ width }) => width,
  );
  expect(resized).toEqual([256, 56, 70]);
  const long = new Map([['a', { width: 400, decimals: 0 }]]);
  const widths = (available: number, titles = [null, null, null] as (string | null)[]) =>
    gridColumns(
      columns.map((column, at) => ({ ...column, title: titles[at]! })),
      { decimals: {}, hidden: [], widths: {} },
      long,
      available,
    ).map(({ width }) => width);
  expect(widths(400)).toEqual([274, 56, 70]);
  expect(widths(240)).toEqual([128, 56, 56]);
  // Its label in two lines.
  const amount = [null, 'Amount before tax', null];
  expect(widths(500, amount)).toEqual([286, 132, 82]);
  expect(widths(240, amount)).toEqual([96, 87, 56]);
  expect(widths(200, amount)).toEqual([80, 87, 56]); // the table is scrolled
});

test('a view is read from the address, without what is not valid', () => {
  const filter = [
    { path: 'total', op: '>', value: '5' },
    { path: 'x', op: 'like', value: '1' },
    { path: 'x', op: 'exists', value: '1' },
    { path: 'y', op: 'missing' },
    { op: '=' },
  ];
  const view = parseTableView({
    filter,
    sort: 'total',
    descending: true,
    list: '',
    cells: 'confirmed',
    state: 'other',
  });
  expect(view).toEqual({ filter: [filter[0], filter[3]], cells: 'confirmed', sort: 'total', descending: true });
  expect(view.filter!.map(conditionText)).toEqual(['total > 5', 'y missing']);
  expect(parseTableView({ byStatus: true })).toEqual({ byStatus: true });
  expect(nextSort({ cells: 'confirmed' }, 'a')).toEqual({ cells: 'confirmed', sort: 'a' });
  expect(nextSort({ sort: 'a', descending: true }, null)).toEqual({ byStatus: true });
  expect(nextSort({ byStatus: true }, null)).toEqual({});
  expect(nextSort({ byStatus: true }, 'a')).toEqual({ sort: 'a' });
  expect(nextSort({ sort: 'a' }, 'a')).toEqual({ sort: 'a', descending: true });
  expect(nextSort({ sort: 'a', descending: true }, 'a')).toEqual({});
});

test('rows that changed keep their place, and are counted once', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((id) => row(id, { document_id: id, version: 1 }));
  const page = { items: [a, b, c], total: 3, changed: ['b '] } as unknown as LoadedPage;
  const now = [{ ...b!, version: 2 }, { ...a!, status: 'stale' } as RecordRow];
  const shown = inPlace(page, now, { total: 4, required: ['total'] } as unknown as RecordsPage);
  expect(shown.items.map(({ document_id, version, status }) => [document_id, version, status])).toEqual([
    ['a', 1, 'stale'],
    ['b', 2, 'done'],
    ['c', 1, 'done'], // it is gone
  ]);
  expect(shown).toMatchObject({ changed: ['b ', 'a ', 'c '], total: 3, matching: 4, required: ['total'] });
  expect(inPlace(page, [a!, b!, c!]).changed).toEqual(['b ']);
  // `c` moved to the page that was loaded later.
  expect(countMoved([shown, { items: [c], total: 3 } as unknown as LoadedPage], 3)).toBe(5);
});
