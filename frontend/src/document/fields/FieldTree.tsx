/** The fields as a tree: arrow keys move, Enter edits. Virtualised. */

import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef, type KeyboardEvent } from 'react';
import type { Edited } from './FieldEditor';
import { isStored, type FieldRow } from './fieldTree';
import { t } from '../../shared/i18n';
import styles from './FieldPanel.module.css';
import { FieldTreeRow } from './FieldTreeRow';

const ROW = 32;

interface Props {
  rows: readonly FieldRow[];
  chosen: string | null;
  editing: boolean;
  /** Paths changed by the run that is shown, with the version. */
  changed: ReadonlyMap<string, number>;
  onChoose: (path: string) => void;
  onEdit: (editing: boolean) => void;
  onWrite: (path: string, edited: Edited) => void;
}

export function FieldTree({ rows, chosen, editing, changed, onChoose, onEdit, onWrite }: Props) {
  const tree = useRef<HTMLDivElement>(null);
  // Each change flashes once, also if its row is mounted again.
  const flashed = useRef(new Map<string, number>());
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => tree.current,
    estimateSize: () => ROW,
    overscan: 15,
    getItemKey: (index) => rows[index]?.path ?? index,
  });
  const at = rows.findIndex((row) => row.path === chosen);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: 'auto' });
  }, [at, virtual]);

  function move(event: KeyboardEvent) {
    if (editing || event.target !== event.currentTarget) return;
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
      className={styles.tree}
      role="tree"
      aria-label={t('document.fields')}
      aria-activedescendant={at >= 0 ? `field-${at}` : undefined}
      tabIndex={0}
      onKeyDown={move}>
      <div className={styles.rows} role="presentation" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const row = rows[index]!;
          return (
            <FieldTreeRow
              key={key}
              id={`field-${index}`}
              row={row}
              top={start}
              chosen={index === at}
              editing={editing && index === at && row.kind === 'leaf'}
              changed={changed.has(row.path) && flashed.current.get(row.path) !== changed.get(row.path)}
              onFlashed={() => flashed.current.set(row.path, changed.get(row.path) ?? 0)}
              onChoose={onChoose}
              onEdit={() => onEdit(true)}
              onFinish={finish}
            />
          );
        })}
      </div>
    </div>
  );
}
