/** The fields as a tree: arrow keys move, Enter edits. Below the chosen one are its details. Virtualised within the panel
 * that scrolls. */

import { useVirtualizer } from '@tanstack/react-virtual';
import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { t } from '../../shared/i18n';
import type { Edited } from './FieldEditor';
import { FieldTreeRow } from './FieldTreeRow';
import { type FieldRow, isStored } from '../../fields/fieldTree';

const ROW = 32;

interface Props {
  rows: readonly FieldRow[];
  chosen: string | null;
  editing: boolean;
  /** Paths changed by the run that is shown, with the version. */
  changed: ReadonlyMap<string, number>;
  /** What scrolls: the tree and what is above it. */
  scroller: RefObject<HTMLElement | null>;
  details: ReactNode;
  onChoose: (path: string) => void;
  onEdit: (editing: boolean) => void;
  onWrite: (path: string, edited: Edited) => void;
}

export function FieldTree(props: Props) {
  const { rows, chosen, editing, changed, scroller, details, onChoose, onEdit, onWrite } = props;
  const tree = useRef<HTMLDivElement>(null);
  // Each change flashes once, also if its row is mounted again.
  const flashed = useRef(new Map<string, number>());
  const above = useHeightAbove(tree, scroller);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 15,
    scrollMargin: above,
    getItemKey: (index) => rows[index]?.path ?? index,
  });
  const at = rows.findIndex((row) => row.path === chosen);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: 'auto' });
  }, [at, virtual]);

  function move(event: KeyboardEvent) {
    if (editing || event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
      if (row !== undefined) onChoose(row.path);
    } else if (event.key === 'Enter' || event.key === 'F2') {
      event.preventDefault();
      const row = rows[at];
      if (row?.kind === 'leaf' && isStored(row)) onEdit(true);
    }
  }

  function finish(path: string, value?: Edited) {
    onEdit(false);
    tree.current?.focus({ preventScroll: true });
    if (value !== undefined) onWrite(path, value);
  }

  return (
    <div
      ref={tree}
      className="group/tree relative mx-2 outline-none focus-visible:not-has-aria-selected:outline-2"
      role="tree"
      aria-label={t('document.fields')}
      aria-activedescendant={at >= 0 ? `field-${at}` : undefined}
      tabIndex={0}
      onKeyDown={move}>
      <div className="relative" role="presentation" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const row = rows[index]!;
          return (
            <div
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              className="absolute inset-x-0 top-0"
              role="presentation"
              style={{ transform: `translateY(${start - above}px)` }}>
              <FieldTreeRow
                id={`field-${index}`}
                row={row}
                chosen={index === at}
                editing={editing && index === at && row.kind === 'leaf'}
                changed={changed.has(row.path) && flashed.current.get(row.path) !== changed.get(row.path)}
                details={index === at ? details : null}
                onFlashed={() => flashed.current.set(row.path, changed.get(row.path) ?? 0)}
                onChoose={onChoose}
                onEdit={() => onEdit(true)}
                onFinish={finish}
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** Return the height of what is above the tree in the element that scrolls. */
function useHeightAbove(tree: RefObject<HTMLElement | null>, scroller: RefObject<HTMLElement | null>): number {
  const [above, setAbove] = useState(0);
  useLayoutEffect(() => {
    const measure = () => {
      if (tree.current === null || scroller.current === null) return;
      const { top } = scroller.current.getBoundingClientRect();
      setAbove(Math.round(tree.current.getBoundingClientRect().top - top + scroller.current.scrollTop));
    };
    measure();
    const observer = new ResizeObserver(measure);
    for (const one of tree.current?.parentElement?.children ?? []) if (one !== tree.current) observer.observe(one);
    return () => observer.disconnect();
  });
  return above;
}
