/** The editor of a cell. Enter saves and goes down, Tab saves and goes right, Ctrl+Enter saves and goes to the next cell that
 * needs a look, Escape cancels. */

import { useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react';
import type { RecordCell } from '../api/types';
import { t } from '../shared/i18n';
import { toast } from '../components/ui/Toast';
import { copiedText } from './cellValue';
import styles from './Grid.module.css';
import type { GridColumn } from './gridColumns';

interface Props {
  column: GridColumn;
  cell: RecordCell | undefined;
  /** What was typed to start editing; undefined: edit the current text. */
  text: string | undefined;
  /** null: cancel. Returns why the text is not valid. */
  onFinish: (text: string | null, by: { row: number; column: number } | 'next' | null) => string | null;
}

export function CellInput({ column, cell, text, onFinish }: Props) {
  const input = useRef<HTMLInputElement & HTMLSelectElement>(null);
  const isFinished = useRef(false);
  const [before] = useState(() => copiedText(cell?.value));
  const [problem, setProblem] = useState<string | null>(null);
  useLayoutEffect(() => {
    input.current?.focus({ preventScroll: true });
    if (text === undefined) input.current?.select?.();
  }, [text]);

  function finish(by: Parameters<Props['onFinish']>[1], isKept = true): string | null {
    if (isFinished.current) return null; // removing the input blurs it
    isFinished.current = true;
    const value = input.current?.value ?? '';
    const refused = onFinish(isKept && value !== before ? value : null, by);
    isFinished.current = refused === null;
    setProblem(refused);
    return refused;
  }
  function press(event: KeyboardEvent) {
    event.stopPropagation();
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Enter')
      finish(event.ctrlKey || event.metaKey ? 'next' : { row: event.shiftKey ? -1 : 1, column: 0 });
    else if (event.key === 'Tab') finish({ row: 0, column: event.shiftKey ? -1 : 1 });
    else if (event.key === 'Escape') finish({ row: 0, column: 0 }, false);
    else return;
    event.preventDefault();
  }
  const common = {
    ref: input,
    className: styles.input,
    'aria-label': t('fields.valueOf', { field: column.label }),
    'aria-invalid': problem !== null,
    onKeyDown: press,
    onBlur: () => {
      // Not when only the window loses the focus.
      if (!document.hasFocus()) return;
      const refused = finish(null);
      if (refused === null) return;
      toast(t('tables.notSaved', { reason: refused }), { urgent: true });
      isFinished.current = false;
      finish(null, false);
    },
  };
  if (column.type === 'boolean') {
    return (
      <select {...common} defaultValue={before}>
        {['', t('common.yes'), t('common.no')].map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    );
  }
  return (
    <>
      <input
        {...common}
        defaultValue={text ?? before}
        spellCheck={false}
        autoComplete="off"
        onChange={() => setProblem(null)}
      />
      {problem !== null && (
        <span className={styles.problem} role="alert">
          {problem}
        </span>
      )}
    </>
  );
}
