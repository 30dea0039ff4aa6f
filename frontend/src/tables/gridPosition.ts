/** The scroll position, active cell and focus of each table, for the way back from a document. */

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

/** Return the position of a table, which the grid updates; the start if the filter or order is another one. */
export function gridPosition(table: string, view: string): GridPosition {
  let position = positions.get(table);
  if (position?.view !== view) {
    position = { view, top: 0, left: 0, cursor: { row: 0, column: 1 }, hasFocus: false };
    positions.set(table, position);
  }
  return position;
}
