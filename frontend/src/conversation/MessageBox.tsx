/** A text box for messages. Enter sends, Shift-Enter starts a new line. */

import type { ComponentProps, KeyboardEvent, ReactNode, Ref } from 'react';
import { Button } from '../components/ui/Button';
import { ErrorNotice } from '../components/ui/Notice';
import styles from './MessageBox.module.css';

interface Props {
  label: string;
  placeholder: string;
  /** Label of the button. */
  send: string;
  value: string;
  isPending: boolean;
  /** Why sending is not possible now. */
  blocked?: string | undefined;
  error: unknown;
  onChange: (text: string, caret: number) => void;
  onSend: () => void;
  /** Handles a key before the box does; true: handled. */
  onKey?: (event: KeyboardEvent) => boolean;
  /** Above the text. */
  above?: ReactNode;
  /** Beside the button. */
  children?: ReactNode;
  textarea?: ComponentProps<'textarea'> & { ref?: Ref<HTMLTextAreaElement> };
}

export function MessageBox({
  label,
  placeholder,
  send,
  value,
  isPending,
  blocked,
  error,
  onChange,
  onSend,
  onKey,
  above,
  children,
  textarea,
}: Props) {
  const trySend = () => {
    if (value.trim() !== '' && !isPending && blocked === undefined) onSend();
  };
  return (
    <form
      className={styles.box}
      onSubmit={(event) => {
        event.preventDefault();
        trySend();
      }}>
      {error != null && <ErrorNotice error={error} />}
      {blocked !== undefined && <p role="status">{blocked}</p>}
      {above}
      <textarea
        aria-label={label}
        placeholder={placeholder}
        rows={2}
        maxLength={8000}
        value={value}
        autoFocus
        {...textarea}
        onChange={(event) => onChange(event.target.value, event.target.selectionStart)}
        onKeyDown={(event) => {
          if (event.nativeEvent.isComposing || onKey?.(event) === true) return;
          if (event.key !== 'Enter' || event.shiftKey) return;
          event.preventDefault();
          trySend();
        }}
      />
      <div className={styles.tools}>
        {children}
        <Button kind="main" type="submit" disabled={isPending || blocked !== undefined || value.trim() === ''}>
          {send}
        </Button>
      </div>
    </form>
  );
}
