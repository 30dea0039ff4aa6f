/** The scroll position, active cell and focus of each table, for the way back from a document. */

import type { TableView } from './tableView';

interface GridPosition {
  /** The filter and order that it belongs to. */
  view: string;
  /** Pixels. */
  top: number;
  left: number;
  cursor: { row: number; column: number };
  hasFocus: boolean;
}

const positions = new Map<string, GridPosition>();
/** What each table showed last, for the way back. */
const searches = new Map<string, TableView>();

export function rememberSearch(table: string, view: TableView): void {
  searches.set(table, view);
}

export function tableSearch(table: string): TableView {
  return searches.get(table) ?? {};
}

/** Return the position of a table, which the grid updates; the start if the filter or order is another one. */
export function gridPosition(table: string, view: string): GridPosition {
  let position = positions.get(table);
  if (position?.view !== view) {
    position = { view, top: 0, left: 0, cursor: { row: 0, column: 1 }, hasFocus: false };
    positions.set(table, position);
  }
  return position;
}
