/** Drawing a rectangle on a page with the mouse. */

import { useRef, useState, type PointerEvent } from 'react';
import type { Box } from '../api/types';

const MIN_SIZE = 4; // pixels: less is a click

/** `onDrawn` null: dragging selects text as usual. */
export function useRectangle(onDrawn: ((box: Box, event: PointerEvent) => void) | null) {
  const [box, setBox] = useState<Box | null>(null);
  const from = useRef<{ x: number; y: number } | null>(null);
  const wasDrawn = useRef(false);

  function at(event: PointerEvent<HTMLElement>) {
    const { left, top, width, height } = event.currentTarget.getBoundingClientRect();
    const part = (value: number) => Math.min(1, Math.max(0, value));
    return { x: part((event.clientX - left) / width), y: part((event.clientY - top) / height), width, height };
  }
  return {
    box,
    /** Whether the current click ends a drawing. */
    hasDrawn: () => wasDrawn.current,
    on: {
      onPointerDown(event: PointerEvent<HTMLElement>) {
        wasDrawn.current = false;
        if (onDrawn === null || event.button !== 0 || event.pointerType === 'touch') return;
        event.preventDefault(); // keep the focus in the editor, and select no text
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = at(event);
      },
      onPointerMove(event: PointerEvent<HTMLElement>) {
        if (from.current === null) return;
        const { x, y, width, height } = at(event);
        const start = from.current;
        if (box === null && Math.abs(x - start.x) * width < MIN_SIZE && Math.abs(y - start.y) * height < MIN_SIZE)
          return;
        setBox([Math.min(x, start.x), Math.min(y, start.y), Math.max(x, start.x), Math.max(y, start.y)]);
      },
      onPointerUp(event: PointerEvent<HTMLElement>) {
        if (from.current === null) return;
        from.current = null;
        if (box === null) return;
        wasDrawn.current = true;
        setBox(null);
        onDrawn?.(box, event);
      },
      onPointerCancel() {
        from.current = null;
        setBox(null);
      },
      // Some browsers move the focus on mousedown, not on pointerdown.
      onMouseDown(event: { preventDefault: () => void; button: number }) {
        if (onDrawn !== null && event.button === 0) event.preventDefault();
      },
    },
  };
}
