/** One document in the review by field: an excerpt of the page, the value and its status. */

import { Link } from '@tanstack/react-router';
import { memo, useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react';
import type { Box, Evidence, FieldValue } from '../../api/types';
import { displayValue, editedText, parseEdited } from '../../document/fields/fieldValue';
import { statusSign, statusText } from '../../document/fields/fieldStatus';
import { Badge } from '../../shared/Badge';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { Crop } from '../Crop';
import styles from './ByField.module.css';

const WIDTH = 480; // pixels

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
  /** `by`: the number of rows to move on. */
  onWrite: (row: FieldValue, index: number, value: unknown, by: number) => void;
  onUndo: (() => void) | undefined;
}

export const ByFieldRow = memo(function ByFieldRow({
  row,
  path,
  index,
  top,
  isActive,
  isRefused,
  isScrolling,
  onGo,
  onConfirm,
  onWrite,
  onUndo,
}: Props) {
  const evidence = row.evidence as Evidence | null;
  const { tone, icon } = statusSign(row);
  const box = evidence?.boxes?.[0] as Box | undefined;
  return (
    <li
      className={styles.row}
      style={{ transform: `translateY(${top}px)` }}
      aria-current={isActive ? 'true' : undefined}
      data-extraction={row.extraction_id}
      onClick={() => onGo(index)}>
      <Link
        to="/documents/$documentId"
        params={{ documentId: row.document_id }}
        search={{ extraction: row.extraction_id, field: path }}
        className="truncate"
        title={visibleText(row.filename)}>
        {visibleText(row.filename)}
      </Link>
      <div className={styles.crop}>
        {evidence?.page != null && box !== undefined ? (
          <Crop documentId={row.document_id} page={evidence.page} box={box} width={WIDTH} isPaused={isScrolling} />
        ) : (
          row.value !== null && <span className="muted">{t('fields.reasons.not_found')}</span>
        )}
      </div>
      {isActive ? (
        <Value
          // Remount with each stored version.
          key={row.version}
          row={row}
          onGo={(by) => onGo(index + by)}
          onConfirm={() => onConfirm(row, index)}
          onWrite={(value, by) => onWrite(row, index, value, by)}
          onUndo={onUndo}
        />
      ) : (
        <span className={`${styles.value} truncate`}>{displayValue(row.value, undefined, evidence?.quote)}</span>
      )}
      <span className={styles.status}>
        <Badge tone={isRefused ? 'bad' : tone} icon={isRefused ? 'warning' : icon}>
          {isRefused ? t('byField.notSaved') : statusText(row, evidence ?? undefined, row.confidence)}
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

/** The editor of the active row. Its text is selected, so typing replaces it. Moving away saves; Escape reverts. */
function Value({ row, onGo, onConfirm, onWrite, onUndo }: ValueProps) {
  const [text, setText] = useState(() => editedText(row.value));
  const input = useRef<HTMLInputElement>(null);
  const isSaved = useRef(false);
  useLayoutEffect(() => {
    // Before a key can be pressed. Not if the person has moved the focus out of the list while the value was saved.
    const focused = document.activeElement;
    const isHere =
      focused?.contains(input.current) === true || input.current?.closest('ul')?.contains(focused) === true;
    if (!isHere) return;
    input.current?.focus({ preventScroll: true });
    input.current?.select();
  }, []);
  const isChanged = text !== editedText(row.value);
  const save = (by: number) => {
    if (isSaved.current) return; // removing the input blurs it
    isSaved.current = true;
    onWrite(parseEdited(text, row.value), by);
  };
  const press = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (by !== undefined && isChanged) save(by);
    else if (by !== undefined) onGo(by);
    else if (event.repeat)
      return; // a held key decides nothing
    else if (event.key === 'z' && (event.ctrlKey || event.metaKey) && !isChanged && onUndo !== undefined) onUndo();
    else if (event.key === 'Enter' && isChanged) save(1);
    else if (event.key === 'Enter') onConfirm();
    else if (event.key === 'Escape') setText(editedText(row.value));
    else return;
    event.preventDefault();
  };
  return (
    <input
      ref={input}
      className={styles.input}
      aria-label={t('byField.valueIn', { name: visibleText(row.filename) })}
      value={text}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => {
        isSaved.current = false;
        setText(event.target.value);
      }}
      // Not when only the window loses the focus.
      onBlur={() => isChanged && document.hasFocus() && save(0)}
      onKeyDown={press}
    />
  );
}
