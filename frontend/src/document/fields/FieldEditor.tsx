/** An editor in the row of a field. Enter saves, Escape cancels; a click on a word of the page, or a box drawn there, fills
 * in the text. */

import { useLayoutEffect, useRef, useState } from 'react';
import { cn } from '../../components/ui/cn';
import { inputClass } from '../../components/ui/Input';
import { useWordPicker } from '../../viewer/picking';
import { t } from '../../shared/i18n';
import { editedText, parseEdited } from '../../fields/fieldValue';

export interface Edited {
  edited: unknown;
  was: unknown;
}

interface Props {
  value: unknown;
  label: string;
  /** The schema's type. */
  type?: string | undefined;
  /** The new value and the value when editing started; undefined if nothing was changed. */
  onFinish: (value?: Edited) => void;
}

export function FieldEditor({ value, label, type, onFinish }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const finished = useRef(false);
  const [was] = useState(value); // `value` may change while it is being edited
  useLayoutEffect(() => input.current?.select(), []); // before a key can be pressed
  useWordPicker((words, isMore) => {
    const element = input.current;
    if (element === null) return;
    element.value = isMore && element.value !== '' ? `${element.value} ${words}` : words;
    element.focus();
  });
  const finish = (keep: boolean) => {
    if (finished.current) return; // removing the input blurs it
    finished.current = true;
    const text = input.current?.value ?? '';
    onFinish(keep && text !== editedText(was) ? { edited: parseEdited(text, was, type), was } : undefined);
  };
  return (
    <input
      ref={input}
      className={cn(inputClass, 'h-7 min-h-7 border-ring px-1.5')}
      aria-label={t('fields.valueOf', { field: label })}
      defaultValue={editedText(was)}
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
