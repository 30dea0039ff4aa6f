/** The pointer in the grid: a press makes a cell active, dragging selects a range, a press with Shift extends it. */

import { type PointerEvent, useRef } from 'react';
import type { Cursor } from './grid';
import { FIRST } from './gridColumns';

interface Options {
  active: Cursor;
  place: (to: Cursor, extend: boolean) => void;
  /** Close an open editor. */
  onPress: () => void;
}

export function useGridPointer({ active, place, onPress }: Options) {
  const isDragging = useRef(false);
  const cellOf = (event: PointerEvent): Cursor | null => {
    const target = event.target as HTMLElement;
    const element = target.closest<HTMLElement>('[data-cell]');
    if (element === null || target.closest('input, select') !== null) return null;
    const [row, column] = element.dataset.cell!.split(' ').map(Number) as [number, number];
    return { row, column };
  };
  return {
    onPointerDown(event: PointerEvent) {
      const at = cellOf(event);
      if (at === null) return;
      isDragging.current = event.button === 0 && at.column >= FIRST && event.pointerType === 'mouse';
      if (at.column === 0) return;
      onPress();
      place(at, event.shiftKey);
    },
    onPointerMove(event: PointerEvent) {
      const at = isDragging.current ? cellOf(event) : null;
      if (at !== null && (at.row !== active.row || at.column !== active.column))
        place({ row: at.row, column: Math.max(FIRST, at.column) }, true);
    },
    onPointerUp() {
      isDragging.current = false;
    },
  };
}
