/** The active cell of a grid and the range that begins elsewhere. The cursor stays on its row when rows come or go. */

import { useLayoutEffect, useRef, useState, type RefObject } from 'react';
import type { RecordRow } from '../api/types';
import { clamp, type Cursor, rangeOf, ROW } from './grid';
import { FIRST } from './gridColumns';
import { gridPosition } from '../records/gridPosition';
import { rowKey } from '../records/tableQueries';

interface Options {
  table: string;
  view: string;
  scroller: RefObject<HTMLElement | null>;
  total: number;
  columns: number;
  isPrevious: boolean;
  rowAt: (index: number) => RecordRow | undefined;
  indexOf: (key: string) => number | undefined;
}

export function useGridCursor({ table, view, scroller, total, columns, isPrevious, rowAt, indexOf }: Options) {
  const position = gridPosition(table, view);
  /** `key`: that of its row, once the row is loaded. */
  const [cursor, setCursor] = useState<Cursor & { key?: string | undefined }>(position.cursor);
  const [anchor, setAnchor] = useState<Cursor | null>(null);
  const lastColumn = columns + FIRST;
  const keyAt = (index: number) => {
    const one = isPrevious ? undefined : rowAt(index);
    return one === undefined ? undefined : rowKey(one);
  };
  const keyNow = keyAt(cursor.row);
  if (keyNow !== undefined && keyNow !== cursor.key) {
    const to = (cursor.key === undefined ? undefined : indexOf(cursor.key)) ?? cursor.row;
    if (anchor !== null && to !== cursor.row) setAnchor({ ...anchor, row: Math.max(0, anchor.row + to - cursor.row) });
    setCursor({ row: to, column: cursor.column, key: keyAt(to) });
  }
  const [ofView, setOfView] = useState(view);
  if (ofView !== view) {
    setOfView(view);
    setAnchor(null);
    setCursor({ row: Math.min(cursor.row, 0), column: cursor.column });
  }
  const active = { row: Math.min(cursor.row, total - 1), column: Math.min(cursor.column, lastColumn) };
  useLayoutEffect(() => {
    position.cursor = active;
  });
  // Its row keeps its place on the screen.
  const followed = useRef({ row: cursor.row, key: cursor.key });
  useLayoutEffect(() => {
    const before = followed.current;
    followed.current = { row: cursor.row, key: cursor.key };
    const moved = cursor.row - before.row;
    if (before.key !== undefined && before.key === cursor.key && moved !== 0 && position.top > 0)
      scroller.current?.scrollBy({ top: moved * ROW });
  }, [cursor.row, cursor.key, position, scroller]);
  return {
    position,
    active,
    anchor,
    range: rangeOf(anchor, active),
    lastColumn,
    /** `extend`: the range grows; else there is none. */
    place(to: Cursor, extend: boolean) {
      const row = clamp(to.row, -1, total - 1);
      setAnchor(extend ? (anchor ?? active) : null);
      setCursor({ row, column: clamp(to.column, 0, lastColumn), key: keyAt(row) });
    },
    clearRange: () => setAnchor(null),
  };
}
