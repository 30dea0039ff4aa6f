/** One document in the sheet: what its page prints beside the value, which can be confirmed or written over. */

import { Link } from '@tanstack/react-router';
import { memo, useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react';
import type { Box, Evidence, FieldValue } from '../../api/types';
import { fieldStatusOf } from '../../document/fields/fieldTree';
import { readWritten, shown, written } from '../../document/fields/fieldValue';
import { FIELD_STATUSES } from '../../document/fields/fieldStatus';
import { Badge } from '../../shared/Badge';
import { visibleText } from '../../shared/format';
import { Crop } from '../Crop';
import styles from './ByField.module.css';

const WIDTH = 480; // pixels of a crop

interface Props {
  row: FieldValue;
  path: string;
  index: number;
  top: number;
  isActive: boolean;
  isRefused: boolean;
  isScrolling: boolean;
  onGo: (index: number) => void;
  onConfirm: (row: FieldValue, index: number) => void;
  /** Then one goes so many rows on. */
  onWrite: (row: FieldValue, index: number, value: unknown, by: number) => void;
  onUndo: (() => void) | undefined;
}

export const ByFieldRow = memo(function ByFieldRow({ row, path, index, top, isActive, isRefused, isScrolling, onGo, onConfirm, onWrite, onUndo }: Props) {
  const evidence = row.evidence as Evidence | null;
  const status = fieldStatusOf(evidence ?? undefined, row.confidence ?? undefined, row.lock ?? undefined, false, row.proposed);
  const { words, tone, icon } = FIELD_STATUSES[status];
  const box = evidence?.boxes?.[0] as Box | undefined;
  return (
    <li
      className={styles.row}
      style={{ transform: `translateY(${top}px)` }}
      aria-current={isActive ? 'true' : undefined}
      data-extraction={row.extraction_id}
      onClick={() => onGo(index)}
    >
      <Link
        to="/documents/$documentId"
        params={{ documentId: row.document_id }}
        search={{ extraction: row.extraction_id, field: path }}
        className="truncate"
        title={visibleText(row.filename)}
      >
        {visibleText(row.filename)}
      </Link>
      <div className={styles.crop}>
        {evidence?.page != null && box !== undefined ? (
          <Crop documentId={row.document_id} page={evidence.page} box={box} width={WIDTH} isPaused={isScrolling} />
        ) : (
          <span className="muted">Not on page</span>
        )}
      </div>
      {isActive ? (
        <Value
          // What is stored anew is what stands in it.
          key={row.version}
          row={row}
          onGo={(by) => onGo(index + by)}
          onConfirm={() => onConfirm(row, index)}
          onWrite={(value, by) => onWrite(row, index, value, by)}
          onUndo={onUndo}
        />
      ) : (
        <span className={`${styles.value} truncate`}>{shown(row.value)}</span>
      )}
      <span className={styles.status}>
        <Badge tone={isRefused ? 'bad' : tone} icon={isRefused ? 'warning' : icon}>
          {isRefused ? 'not written' : words}
        </Badge>
      </span>
    </li>
  );
});

interface ValueProps {
  row: FieldValue;
  onGo: (by: number) => void;
  onConfirm: () => void;
  onWrite: (value: unknown, by: number) => void;
  onUndo: (() => void) | undefined;
}

/** Its text is chosen: a letter begins to write. What was written is kept, wherever one goes then; Escape drops it. */
function Value({ row, onGo, onConfirm, onWrite, onUndo }: ValueProps) {
  const [text, setText] = useState(() => written(row.value));
  const input = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useLayoutEffect(() => {
    // Before a letter can come that belongs here. Somebody may have gone elsewhere while it was stored: to what is
    // neither around it nor in another row.
    const focused = document.activeElement;
    const isHere = focused?.contains(input.current) === true || input.current?.closest('ul')?.contains(focused) === true;
    if (!isHere) return;
    input.current?.focus({ preventScroll: true });
    input.current?.select();
  }, []);
  const isChanged = text !== written(row.value);
  const keep = (by: number) => {
    if (over.current) return; // it loses the focus when it goes
    over.current = true;
    onWrite(readWritten(text, row.value), by);
  };
  const press = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (by !== undefined && isChanged) keep(by);
    else if (by !== undefined) onGo(by);
    else if (event.repeat) return; // held down, it decides nothing
    else if (event.key === 'z' && (event.ctrlKey || event.metaKey) && !isChanged && onUndo !== undefined) onUndo();
    else if (event.key === 'Enter' && isChanged) keep(1);
    else if (event.key === 'Enter') onConfirm();
    else if (event.key === 'Escape') setText(written(row.value));
    else return;
    event.preventDefault();
  };
  return (
    <input
      ref={input}
      className={styles.input}
      aria-label={`Value in ${visibleText(row.filename)}`}
      value={text}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => {
        over.current = false;
        setText(event.target.value);
      }}
      // Not where one only looks into another window.
      onBlur={() => isChanged && document.hasFocus() && keep(0)}
      onKeyDown={press}
    />
  );
}
