/** A text box for messages. Enter sends, Shift-Enter starts a new line. */

import type { ComponentProps, KeyboardEvent, ReactNode, Ref } from 'react';
import { ArrowUp } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Form } from '../components/ui/Form';
import { ErrorNotice } from '../components/ui/Notice';

interface Props {
  label: string;
  placeholder: string;
  /** The button's name. */
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
  /** Below the box. */
  below?: ReactNode;
  /** Beside the button. */
  children?: ReactNode;
  className?: string | undefined;
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
  below,
  children,
  className,
  textarea,
}: Props) {
  const trySend = () => {
    if (value.trim() !== '' && !isPending && blocked === undefined) onSend();
  };
  return (
    <Form
      className={cn('mx-auto grid w-full max-w-[48rem] grid-cols-[minmax(0,1fr)] gap-2 p-4 pt-2', className)}
      onSubmit={trySend}>
      {error != null && <ErrorNotice error={error} />}
      {blocked !== undefined && <p role="status">{blocked}</p>}
      {above}
      <div className="grid rounded-lg border border-input bg-background shadow-sm focus-within:border-ring">
        <textarea
          className="resize-none border-0 bg-transparent px-3.5 pt-3 text-lg outline-none [field-sizing:content] max-h-60"
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
        <div className="flex flex-wrap items-center gap-1 p-2">
          {children}
          <Button
            kind="main"
            size="md"
            type="submit"
            icon={ArrowUp}
            label={send}
            className="ml-auto"
            disabled={isPending || blocked !== undefined || value.trim() === ''}
          />
        </div>
      </div>
      {below}
    </Form>
  );
}

interface ChipsProps {
  label: string;
  texts: readonly string[];
  disabled?: boolean;
  onChoose: (text: string) => void;
}

/** Messages to choose from. */
export function Chips({ label, texts, disabled, onChoose }: ChipsProps) {
  return (
    <ul className="flex gap-2 max-sm:overflow-x-auto max-sm:[scrollbar-width:none] sm:flex-wrap" aria-label={label}>
      {texts.map((one) => (
        <li key={one}>
          <button
            type="button"
            disabled={disabled}
            className="min-h-7 rounded-full border border-border px-3 text-xs whitespace-nowrap text-muted-foreground hover:bg-hover hover:text-foreground max-sm:min-h-11"
            onClick={() => onChoose(one)}>
            {one}
          </button>
        </li>
      ))}
    </ul>
  );
}
