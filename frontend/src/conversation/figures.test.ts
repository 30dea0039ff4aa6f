import { expect, test } from 'vitest';
import type { FigureTable } from '../api/types';
import { columnSum, figureColumns, rowConditions } from './figures';

const sum = (value: string, currency: string | null = 'EUR') => ({
  op: 'sum' as const,
  path: 'total',
  value,
  currency,
});
const ALL = { document_ids: [], tags: [], fields: [] };
const table: FigureTable = {
  where: { ...ALL, fields: [{ path: 'total', op: '>', value: 100 }] },
  group_by: { kind: 'field', path: 'vendor' },
  groups: [
    { key: 'Acme "A"', documents: 2, results: [sum('0.1'), sum('5', 'USD')] },
    { key: null, documents: 1, results: [sum('0.2')] },
  ],
  groups_total: 2,
  in_several_groups: 0,
};

test('the groups of an answer are added by currency, unless they do not add up', () => {
  const unknown = { ...table.groups[1]!, results: [sum('7', null), sum('0.2')] };
  const columns = figureColumns({ ...table, groups: [unknown, table.groups[0]!] });
  expect(columns.map(({ currency }) => currency)).toEqual(['EUR', 'USD', null]);
  const counted = { ...table.groups[0]!, results: [{ ...sum('2', null), op: 'count' as const }] };
  expect(figureColumns({ ...table, groups: [counted] })).toEqual([]); // the number of its documents
  expect(columns.map((one) => columnSum(table, one))).toEqual(['0.3', '5', '0']);
  expect(columnSum({ ...table, groups_total: 3 }, columns[0]!)).toBeUndefined();
  expect(columnSum({ ...table, in_several_groups: 1 }, columns[0]!)).toBeUndefined();
});

test('the rows of a group are those of its key, its month or its year', () => {
  const over = { path: 'total', op: '>', value: '100' };
  expect(rowConditions(table)).toEqual([over]);
  expect(rowConditions(table, table.groups[0])).toEqual([over, { path: 'vendor', op: '=', value: '"Acme \\"A\\""' }]);
  expect(rowConditions(table, table.groups[1])).toEqual([over, { path: 'vendor', op: 'missing' }]);
  const byMonth: FigureTable = { ...table, where: ALL, group_by: { kind: 'month', path: 'date' } };
  const december = { key: '2026-12', documents: 1, results: [] };
  expect(rowConditions(byMonth, december)?.map(({ value }) => value)).toEqual(['2026-12-01', '2027-01-01']);
  const byTag: FigureTable = { ...table, group_by: { kind: 'tag', path: null } };
  expect(rowConditions(byTag, december)).toBeUndefined();
  expect(
    rowConditions({ ...table, where: { ...ALL, fields: [{ path: 'items[].price', op: 'exists' }] } }),
  ).toBeUndefined();
});
