/** What a table shows: its rows, filter and order. It is part of the address, so that it can be linked to. */

import type { RecordRow, TableColumn } from '../api/types';
import { CELL_STATUSES, type CellFilter, ROW_STATES } from './statuses';

/** The operators of the API. */
export const OPERATORS = ['=', '!=', '<', '<=', '>', '>=', 'contains', 'exists', 'missing'] as const;
export type Operator = (typeof OPERATORS)[number];

/** A condition on a column. `value` is written as the API reads it: `1000`, `"Acme"`, `2024-03-12`, `true`. */
export interface Condition {
  path: string;
  op: Operator;
  value?: string;
}

/** Which rows, in which order. */
export interface RowsView {
  /** A list of the schema: its items are the rows. */
  list?: string;
  filter?: readonly Condition[];
  /** Only rows with a cell of this status. */
  cells?: CellFilter;
  /** Only rows of a stack in this state. */
  state?: RecordRow['status'];
  sort?: string;
  descending?: true;
  /** Rows with the most urgent cells first, in place of a column. */
  byStatus?: true;
  /** Rows with the same value in this column are together, below a header with their number and sums. */
  group?: string;
}

export interface TableView extends RowsView {
  /** Hidden columns; without, those that the person has hidden in this browser. */
  hidden?: readonly string[];
  /** The id of the saved view that was opened. */
  view?: string;
}

/** Return which rows a view shows. */
export function rowsOf({ hidden: _, view: __, ...rows }: TableView): RowsView {
  return rows;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseTableView({
  list,
  filter,
  cells,
  state,
  sort,
  descending,
  byStatus,
  group,
  hidden,
  view,
}: Record<string, unknown>): TableView {
  const conditions = Array.isArray(filter) ? filter.filter(isCondition) : [];
  return {
    ...(typeof list === 'string' && list !== '' && { list }),
    ...(conditions.length > 0 && { filter: conditions }),
    ...((cells === 'to_review' ||
      (typeof cells === 'string' && (CELL_STATUSES as readonly string[]).includes(cells))) && {
      cells: cells as CellFilter,
    }),
    ...((ROW_STATES as readonly unknown[]).includes(state) && { state: state as RecordRow['status'] }),
    ...(typeof sort === 'string' && sort !== '' && { sort, ...(descending === true && { descending }) }),
    ...(byStatus === true && sort === undefined && { byStatus }),
    ...(typeof group === 'string' && group !== '' && { group }),
    ...(Array.isArray(hidden) && { hidden: hidden.filter((path) => typeof path === 'string') }),
    ...(typeof view === 'string' && { view }),
  };
}

function isCondition(one: unknown): one is Condition {
  if (typeof one !== 'object' || one === null) return false;
  const { path, op, value } = one as Record<string, unknown>;
  const isKnown = typeof path === 'string' && OPERATORS.includes(op as Operator);
  return isKnown && (takesValue(op as Operator) ? typeof value === 'string' && value !== '' : value === undefined);
}

export function takesValue(op: Operator): boolean {
  return op !== 'exists' && op !== 'missing';
}

/** Return the operators that make sense for a type. */
export function operatorsOf(type: TableColumn['type']): readonly Operator[] {
  if (type === 'boolean') return ['=', 'exists', 'missing'];
  if (type === 'text') return ['contains', '=', '!=', 'exists', 'missing'];
  return ['=', '!=', '<', '<=', '>', '>=', 'exists', 'missing'];
}

/** Return a condition as the API reads it. */
export function conditionText({ path, op, value }: Condition): string {
  return value === undefined ? `${path} ${op}` : `${path} ${op} ${value}`;
}

/** Return the view after a click on a column's header: sorted ascending, descending, then in the default order. The
 * column of the statuses (null) sorts the most urgent first. */
export function nextSort({ sort, descending, byStatus, ...view }: TableView, path: string | null): TableView {
  if (path === null) return byStatus === true ? view : { ...view, byStatus: true };
  if (sort !== path) return { ...view, sort: path };
  return descending === true ? view : { ...view, sort: path, descending: true };
}
