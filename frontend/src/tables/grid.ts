/** What the parts of the grid share: the active cell, ranges, and the ids of cells. */

import type { ReadRow } from '../api/types';
import type { GridColumn } from './gridColumns';

export const ROW = 34; // pixels
export const HEAD = 32;
/** Of a sum in the header of a group. */
export const SUM = 20;
export const CHECK_WIDTH = 36;
export const STATUS_WIDTH = 104;

/** Row -1 is the header. Column 0 selects rows, column 1 is the document, the last one is the status. */
export interface Cursor {
  row: number;
  column: number;
}

/** A rectangle of cells, edges inclusive. */
export interface CellRange {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** An open editor: of the row as it was shown when the editor was opened. `text`: what was typed to open it. */
export interface Editing {
  row: ReadRow;
  column: GridColumn;
  text?: string;
}

/** Where to go once an editor is closed. null: it lost the focus. */
export type Leaving = { row: number; column: number } | 'next' | null;

/** What a parent may do with the grid. */
export interface GridHandle {
  focus: () => void;
  /** Make a cell active and scroll to it. */
  show: (cell: Cursor) => void;
}

export function cellId(row: number, column: number): string {
  return `cell-${row}-${column}`;
}

export function rangeOf(anchor: Cursor | null, active: Cursor): CellRange {
  const from = anchor ?? active;
  return {
    top: Math.max(0, Math.min(from.row, active.row)),
    bottom: Math.max(from.row, active.row),
    left: Math.min(from.column, active.column),
    right: Math.max(from.column, active.column),
  };
}

export function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
