/** Starts a run that corrects the extraction as described. Its changes count as set by the person. */

import { WandSparkles } from 'lucide-react';
import { useRef, useState } from 'react';
import { startCorrection } from '../api/runs';
import { Button } from '../components/ui/Button';
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
  const [isOpen, setOpen] = useState(false);
  const [message, setMessage] = useState('');
  // Idempotency key: a retry or a second click starts the correction once.
  const key = useRef(crypto.randomUUID());
  const correct = useChange(
    [],
    () => startCorrection(extractionId, message, key.current),
    (runId) => {
      key.current = crypto.randomUUID();
      setMessage('');
      setOpen(false);
      onStarted(runId);
    },
  );
  if (!isOpen)
    return (
      <Button kind="quiet" icon={WandSparkles} disabled={disabled} onClick={() => setOpen(true)}>
        {t('document.correctInWords')}
      </Button>
    );
  return (
    <Form
      className="flex w-full gap-2 p-2"
      onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}
      onSubmit={() => {
        if (message.trim() !== '' && !correct.isPending && !disabled) correct.mutate();
      }}>
      <Input
        aria-label={t('document.correction')}
        placeholder={t('document.correctionHint')}
        maxLength={8000}
        autoFocus
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
  );
}
