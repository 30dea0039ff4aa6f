/** A value that is being changed where it stands: Enter keeps it, Escape leaves it as it was, a click on a word of the
 * page or a rectangle drawn there writes it. */

import { useLayoutEffect, useRef, useState } from 'react';
import { useWordPicker } from '../viewer/picking';
import styles from './FieldPanel.module.css';
import { readWritten, written } from './fieldValue';

export interface Edited {
  written: unknown;
  was: unknown;
}

interface Props {
  value: unknown;
  label: string;
  /** What the schema wants where nothing stands yet. */
  type?: string | undefined;
  /** With what was written and what stood there when that was begun; or with nothing. */
  onFinish: (value?: Edited) => void;
}

export function FieldEditor({ value, label, type, onFinish }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  const [was] = useState(value); // it may change while it is being changed here
  useLayoutEffect(() => input.current?.select(), []); // before a letter can come that it would choose, too
  useWordPicker((words, isMore) => {
    const element = input.current;
    if (element === null) return;
    element.value = isMore && element.value !== '' ? `${element.value} ${words}` : words;
    element.focus();
  });
  const finish = (keep: boolean) => {
    if (over.current) return; // the field loses the focus when it goes
    over.current = true;
    const text = input.current?.value ?? '';
    onFinish(keep && text !== written(was) ? { written: readWritten(text, was, type), was } : undefined);
  };
  return (
    <input
      ref={input}
      className={styles.editor}
      aria-label={`Value of ${label}`}
      defaultValue={written(was)}
      spellCheck={false}
      autoFocus
      onClick={(event) => event.stopPropagation()}
      onDoubleClick={(event) => event.stopPropagation()}
      onBlur={() => finish(true)}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === 'Enter') finish(true);
        else if (event.key === 'Escape') finish(false);
      }}
    />
  );
}
