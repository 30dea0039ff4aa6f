/** The selected rows of a grid. */

import { useCallback, useRef, useState } from 'react';
import type { RecordRow } from '../api/types';
import { MAX_ROWS, rowKey } from '../records/tableQueries';

export interface Selection {
  size: number;
  /** The most rows that can be selected. */
  limit: number;
  rows: readonly RecordRow[];
  has: (row: RecordRow) => boolean;
  toggle: (index: number, rowAt: (index: number) => RecordRow | undefined) => void;
  /** Select the rows from the last one that was toggled to this one. */
  extend: (index: number, rowAt: (index: number) => RecordRow | undefined) => void;
  toggleAll: () => void;
  clear: () => void;
}

/** `loadAll` returns the rows of the table, at most MAX_ROWS. `latest` returns a row as it is now: it may have been edited. */
export function useSelection(
  loadAll: () => Promise<readonly RecordRow[]>,
  latest: (row: RecordRow) => RecordRow,
): Selection {
  const [selected, setSelected] = useState<ReadonlyMap<string, RecordRow>>(new Map());
  const last = useRef(0);
  const add = useCallback((rows: readonly RecordRow[]) => {
    setSelected((before) => new Map([...before, ...rows.map((row) => [rowKey(row), row] as const)].slice(0, MAX_ROWS)));
  }, []);
  return {
    size: selected.size,
    limit: MAX_ROWS,
    rows: [...selected.values()].map(latest),
    has: (row) => selected.has(rowKey(row)),
    toggle(index, rowAt) {
      const row = rowAt(index);
      if (row === undefined) return;
      last.current = index;
      if (!selected.has(rowKey(row))) add([row]);
      else setSelected((before) => new Map([...before].filter(([key]) => key !== rowKey(row))));
    },
    extend(index, rowAt) {
      const [from, to] = [Math.min(last.current, index), Math.max(last.current, index)];
      const indexes = Array.from({ length: Math.min(to - from + 1, MAX_ROWS) }, (_, at) => from + at);
      add(indexes.map(rowAt).filter((row) => row !== undefined));
    },
    toggleAll() {
      if (selected.size > 0) setSelected(new Map());
      else void loadAll().then(add, () => undefined);
    },
    clear: useCallback(() => setSelected(new Map()), []),
  };
}
