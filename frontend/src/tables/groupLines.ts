/** A grouped table as lines: a header for each group, and the rows of the open ones. Without groups, a line for each row. */

import type { TableGroup } from '../api/types';

/** A group of rows; without a `group`, those of the values that are not listed. */
export interface RowGroup {
  key: string;
  group: TableGroup | undefined;
  rows: number;
  isOpen: boolean;
}

export interface GroupLines {
  count: number;
  /** Return the group whose header a line is; undefined: it is a row. */
  groupAt: (line: number) => RowGroup | undefined;
  /** Return the row of a line; of a header, the first row that follows it. */
  rowOf: (line: number) => number;
  /** Return the line of a row; undefined if its group is closed. */
  lineOf: (row: number) => number | undefined;
}

export const UNGROUPED = { groupAt: () => undefined, rowOf: (line: number) => line, lineOf: (row: number) => row };

export function groupKey({ kind, value }: Pick<TableGroup, 'kind' | 'value'>): string {
  return `${kind} ${value}`;
}

/** `total`: the number of rows, also of groups that are not listed. */
export function groupLines(groups: readonly TableGroup[], total: number, closed: ReadonlySet<string>): GroupLines {
  const listed: Pick<RowGroup, 'key' | 'group' | 'rows'>[] = groups.map((group) => ({
    key: groupKey(group),
    group,
    rows: group.rows,
  }));
  const rest = total - listed.reduce((sum, { rows }) => sum + rows, 0);
  if (rest > 0) listed.push({ key: '', group: undefined, rows: rest });
  let [line, row] = [0, 0];
  const placed = listed.map((one) => {
    const isOpen = !closed.has(one.key);
    const at = { ...one, isOpen, line, row };
    line += 1 + (isOpen ? one.rows : 0);
    row += one.rows;
    return at;
  });
  /** Return the last group that starts at or before a line or a row. */
  const find = (by: 'line' | 'row', wanted: number) => {
    let [low, high] = [0, placed.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (placed[middle]![by] <= wanted) low = middle;
      else high = middle - 1;
    }
    return placed[low];
  };
  return {
    count: line,
    groupAt: (at) => {
      const found = find('line', at);
      return found?.line === at ? found : undefined;
    },
    rowOf: (at) => {
      const found = find('line', at);
      return found === undefined ? at : found.row + Math.max(0, at - found.line - 1);
    },
    lineOf: (of) => {
      const found = find('row', of);
      return found?.isOpen === true ? found.line + 1 + of - found.row : undefined;
    },
  };
}
