/** Starts a run that corrects the extraction as described. Its changes count as set by the person. */

import { MessageSquareText } from 'lucide-react';
import { useRef, useState } from 'react';
import { startCorrection } from '../api/runs';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Form } from '../components/ui/Form';
import { Input } from '../components/ui/Input';
import { t } from '../shared/i18n';
import { useChange } from '../shared/useChange';

interface Props {
  extractionId: string;
  disabled: boolean;
  onStarted: (runId: string) => void;
}

export function CorrectBox({ extractionId, disabled, onStarted }: Props) {
  const [message, setMessage] = useState('');
  const [isOpen, setOpen] = useState(false);
  // Idempotency key: a retry or a second click starts the correction once.
  const key = useRef(crypto.randomUUID());
  const correct = useChange(
    [],
    () => startCorrection(extractionId, message, key.current),
    (runId) => {
      key.current = crypto.randomUUID();
      setMessage('');
      onStarted(runId);
    },
  );
  // On a phone it would take the room of the fields.
  return (
    <div className="shrink-0 border-t border-border px-3 py-2">
      {!isOpen && (
        <Button kind="quiet" icon={MessageSquareText} className="sm:hidden" onClick={() => setOpen(true)}>
          {t('document.correction')}
        </Button>
      )}
      <Form
        className={cn('flex gap-2', !isOpen && 'max-sm:hidden')}
        onSubmit={() => {
          if (message.trim() !== '' && !correct.isPending && !disabled) correct.mutate();
        }}>
        <Input
          key={String(isOpen)}
          autoFocus={isOpen}
          aria-label={t('document.correction')}
          placeholder={t('document.correctionHint')}
          maxLength={8000}
          value={message}
          onChange={(event) => {
            setMessage(event.target.value);
            key.current = crypto.randomUUID(); // another correction
          }}
        />
        <Button size="md" type="submit" disabled={disabled || correct.isPending || message.trim() === ''}>
          {t('document.correct')}
        </Button>
      </Form>
    </div>
  );
}
