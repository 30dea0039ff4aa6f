/** The keys of the grid. The grid keeps the focus and names its active cell (aria-activedescendant). */

import type { KeyboardEvent } from 'react';
import type { ReadRow, RecordCell, RecordRow } from '../api/types';
import { clamp, type Cursor } from './grid';
import { DOCUMENT, MAX_WIDTH, MIN_WIDTH, type GridColumn } from './gridColumns';
import type { RowGroup } from './groupLines';

const PRINTABLE = /^[^\p{C}]$/u;
const RESIZE_STEP = 16; // pixels

/** What is at the cursor, and what keys do with it. */
export interface GridActions {
  active: Cursor;
  hasRange: boolean;
  hasSelection: boolean;
  total: number;
  lastColumn: number;
  pageRows: number;
  /** The group whose header is active. */
  group: RowGroup | undefined;
  row: RecordRow | undefined;
  /** The row, if it has values. */
  read: ReadRow | undefined;
  column: GridColumn | undefined;
  cell: RecordCell | undefined;
  canWrite: boolean;
  /** The page is beside the table. */
  isPaneOpen: boolean;
  /** The cell is asked about beside the table. */
  isAsked: boolean;
  moveTo: (row: number, column: number, extend?: boolean) => void;
  resize: (pixels: number) => void;
  clearRange: () => void;
  clearSelection: () => void;
  select: (what: 'row' | 'all') => void;
  showPane: (is: boolean) => void;
  answer: () => void;
  openMenu: () => void;
  sort: () => void;
  edit: (text?: string) => void;
  confirm: () => void;
  confirmRange: () => void;
  decide: (accepted: boolean) => void;
  next: () => void;
  clear: () => void;
  undo: () => void;
  toggleGroup: (key: string) => void;
  open: () => void;
}

/** Return whether the key was handled. */
export function pressKey(event: KeyboardEvent, grid: GridActions): boolean {
  const { key, shiftKey: extend } = event;
  const { active, column, total, lastColumn } = grid;
  const mod = event.ctrlKey || event.metaKey;
  const canEdit = grid.canWrite && grid.read !== undefined && column !== undefined;
  if (grid.group !== undefined && !event.altKey && !mod) {
    const { isOpen, key: group } = grid.group;
    const toggles = { Enter: true, ' ': true, ArrowRight: !isOpen, ArrowLeft: isOpen }[key];
    if (toggles === true && !event.repeat) grid.toggleGroup(group);
    // Nothing is written into a header.
    if (toggles !== undefined || key === 'Delete' || key === 'Backspace') return true;
  }
  if (event.altKey) {
    if (key === 'ArrowDown' && active.row < 0) grid.openMenu();
    else if (key === 'ArrowDown') grid.next();
    else if (key !== 'Enter' || !canEdit || grid.cell?.reason !== 'proposal') return false;
    else if (!event.repeat) grid.decide(true);
    return true;
  }
  switch (key) {
    case 'ArrowDown':
    case 'ArrowUp': {
      const by = key === 'ArrowDown' ? 1 : -1;
      grid.moveTo(mod ? (by > 0 ? total - 1 : 0) : active.row + by, active.column, extend);
      return true;
    }
    case 'ArrowRight':
    case 'ArrowLeft': {
      const by = key === 'ArrowRight' ? 1 : -1;
      // On a header, as its edge is dragged with the mouse.
      if (extend && active.row < 0 && column !== undefined)
        grid.resize(clamp(column.width + by * RESIZE_STEP, MIN_WIDTH, MAX_WIDTH));
      else grid.moveTo(active.row, mod ? (by > 0 ? lastColumn : DOCUMENT) : active.column + by, extend);
      return true;
    }
    case 'Home':
      grid.moveTo(mod ? 0 : active.row, DOCUMENT, extend);
      return true;
    case 'End':
      grid.moveTo(mod ? total - 1 : active.row, lastColumn, extend);
      return true;
    case 'PageDown':
    case 'PageUp':
      grid.moveTo(Math.max(0, active.row + (key === 'PageDown' ? 1 : -1) * grid.pageRows), active.column, extend);
      return true;
    case 'Escape':
      if (grid.hasRange) grid.clearRange();
      else if (grid.hasSelection) grid.clearSelection();
      else if (grid.isPaneOpen) grid.showPane(false);
      else return false;
      return true;
    case 'Enter':
      if (!event.repeat) enter(grid, mod, extend, canEdit);
      return true;
    case 'F2':
      if (canEdit) grid.edit();
      return canEdit;
    case 'Delete':
    case 'Backspace':
      if (grid.canWrite) grid.clear();
      return true;
    case 'ContextMenu':
      if (active.row >= 0) return false;
      grid.openMenu();
      return true;
    case ' ':
      if (active.row < 0) grid.select('all');
      else if (extend || active.column === 0) grid.select('row');
      else grid.showPane(!grid.isPaneOpen);
      return true;
    default:
  }
  if (mod && key.toLowerCase() === 'a') grid.select('all');
  else if (mod && key.toLowerCase() === 'z') grid.undo();
  else if (!mod && canEdit && PRINTABLE.test(key) && column.type !== 'boolean') grid.edit(key);
  else return false;
  return true;
}

function enter(grid: GridActions, mod: boolean, shift: boolean, canEdit: boolean): void {
  const { active, row, column } = grid;
  if (active.row < 0) {
    if (active.column === 0) grid.select('all');
    else if (active.column !== DOCUMENT) grid.sort();
  } else if (mod && grid.hasRange && grid.canWrite) grid.confirmRange();
  else if (row === undefined) return;
  else if (active.column === 0) grid.select('row');
  else if (active.column === grid.lastColumn && !shift) grid.showPane(!grid.isPaneOpen);
  else if (column === undefined || shift || grid.read === undefined) grid.open();
  else if (!canEdit) grid.showPane(true);
  else if (mod) grid.confirm();
  else if (grid.isAsked) grid.answer();
  else grid.edit();
}
