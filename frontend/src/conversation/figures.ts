/** What an answer's figures show as a table, and which rows of a table are behind them. */

import type { FigureTable } from '../api/types';
import type { Condition } from '../records/tableView';

const DAY = /^\d{4}-\d{2}-\d{2}$/;

export type FigureGroup = FigureTable['groups'][number];
export type Figure = FigureGroup['results'][number];

export interface FigureColumn extends Pick<Figure, 'op' | 'path' | 'currency'> {
  /** The aggregate has several columns: one for each currency, the one without a currency last. */
  isOneOfSeveral: boolean;
}

/** Return the columns of a table beside the number of documents: each aggregate once in each currency. A count that is
 * that number in each group is left out. */
export function figureColumns({ groups }: FigureTable): FigureColumn[] {
  const results = groups.flatMap((group) => group.results.map((one) => ({ ...one, documents: group.documents })));
  const differ = results.filter((one) => one.op === 'count' && Number(one.value) !== one.documents);
  const all = results.filter((one) => one.op !== 'count' || differ.some((other) => other.path === one.path));
  const aggregates = new Map(all.map((one) => [`${one.op} ${one.path}`, one]));
  return [...aggregates.values()].flatMap(({ op, path }) => {
    const currencies = [...new Set(all.filter((one) => one.op === op && one.path === path).map((one) => one.currency))];
    return currencies
      .toSorted((a, b) => Number(a === null) - Number(b === null))
      .map((currency) => ({ op, path, currency, isOneOfSeveral: currencies.length > 1 }));
  });
}

/** Return the value of a group in a column. */
export function figureIn({ results }: FigureGroup, { op, path, currency }: FigureColumn): string | undefined {
  return results.find((one) => one.op === op && one.path === path && one.currency === currency)?.value;
}

/** Return the sum of a column over all groups. undefined: the groups do not add up. */
export function columnSum(table: FigureTable, column: FigureColumn): string | undefined {
  const isWhole = table.groups_total <= table.groups.length && table.in_several_groups === 0;
  if ((column.op !== 'sum' && column.op !== 'count') || !isWhole || table.groups.length < 2) return undefined;
  const values = table.groups.map((group) => Math.round(Number(figureIn(group, column) ?? 0) * 10_000));
  return String(values.reduce((sum, one) => sum + one, 0) / 10_000);
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
