/** What an answer's figures show as a table, and which rows of a table are behind them. */

import type { FigureTable } from '../api/types';
import type { Condition } from '../records/tableView';

const DAY = /^\d{4}-\d{2}-\d{2}$/;

export type FigureGroup = FigureTable['groups'][number];
export type Figure = FigureGroup['results'][number];

/** The figures in the columns of a table: each aggregate once. */
export function figureColumns({ groups }: FigureTable): Pick<Figure, 'op' | 'path'>[] {
  const seen = new Map<string, Pick<Figure, 'op' | 'path'>>();
  for (const { op, path } of groups.flatMap((group) => group.results)) seen.set(`${op} ${path}`, { op, path });
  return [...seen.values()];
}

/** Return the sum of a column over all groups, one for each currency. Nothing where the groups do not add up. */
export function columnSums(table: FigureTable, { op, path }: Pick<Figure, 'op' | 'path'>): Figure[] {
  const isWhole = table.groups_total <= table.groups.length && table.in_several_groups === 0;
  if ((op !== 'sum' && op !== 'count') || !isWhole || table.groups.length < 2) return [];
  const sums = new Map<string | null, number>();
  for (const one of table.groups.flatMap((group) => group.results))
    if (one.op === op && one.path === path)
      sums.set(one.currency, (sums.get(one.currency) ?? 0) + Math.round(Number(one.value) * 10_000));
  return [...sums].map(([currency, sum]) => ({ op, path, currency, value: String(sum / 10_000) }));
}

/** Return the conditions of the rows behind a table's figures; with `group`, of one group. undefined: a table cannot
 * show exactly these rows. */
export function rowConditions({ where, group_by: by }: FigureTable, group?: FigureGroup): Condition[] | undefined {
  const known = where.fields.map(
    ({ path, op, value }): Condition => (value == null ? { path, op } : { path, op, value: valueText(value) }),
  );
  const all = group === undefined || by === null ? known : [...known, ...(groupConditions(by, group.key) ?? [])];
  const isGroupKnown = group === undefined || by === null || groupConditions(by, group.key) !== undefined;
  return isGroupKnown && all.every(({ path }) => !path.includes('[')) ? all : undefined;
}

function groupConditions(by: NonNullable<FigureTable['group_by']>, key: string | null): Condition[] | undefined {
  const path = by.path ?? null;
  if (path === null) return undefined;
  if (key === null) return [{ path, op: 'missing' }];
  if (by.kind === 'field') return [{ path, op: '=', value: valueText(key) }];
  const [year, month] = key.split('-').map(Number);
  const first = month === undefined ? `${year}-01-01` : `${key}-01`;
  const next =
    month === undefined ? `${year! + 1}-01-01` : month === 12 ? `${year! + 1}-01-01` : nextMonth(year!, month);
  return [
    { path, op: '>=', value: first },
    { path, op: '<', value: next },
  ];
}

function nextMonth(year: number, month: number): string {
  return `${year}-${String(month + 1).padStart(2, '0')}-01`;
}

/** Return a value as the API reads it in a condition. */
function valueText(value: string | number | boolean): string {
  return typeof value !== 'string' || DAY.test(value) ? String(value) : JSON.stringify(value);
}
