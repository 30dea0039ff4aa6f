/** Says to an agent, in words, what is to be changed. What it changes then counts as set by whoever said so. */

import { useMutation } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { startCorrection } from '../api/runs';
import { Button } from '../shared/Button';
import { errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import styles from './DocumentPage.module.css';

interface Props {
  extractionId: string;
  disabled: boolean;
  onStarted: (runId: string) => void;
}

export function CorrectBox({ extractionId, disabled, onStarted }: Props) {
  const [message, setMessage] = useState('');
  // An answer that was lost, and a second press, ask for the same correction once.
  const key = useRef(crypto.randomUUID());
  const correct = useMutation({
    mutationFn: () => startCorrection(extractionId, message, key.current),
    onSuccess: (runId) => {
      key.current = crypto.randomUUID();
      setMessage('');
      onStarted(runId);
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  return (
    <form
      className={styles.correct}
      onSubmit={(event) => {
        event.preventDefault();
        if (message.trim() !== '' && !correct.isPending && !disabled) correct.mutate();
      }}
    >
      <input
        aria-label="Correction"
        placeholder="Describe a correction, e.g. “the vendor is Acme Ltd”"
        maxLength={8000}
        value={message}
        onChange={(event) => {
          setMessage(event.target.value);
          key.current = crypto.randomUUID(); // another correction
        }}
      />
      <Button type="submit" disabled={disabled || correct.isPending || message.trim() === ''}>
        Correct
      </Button>
    </form>
  );
}
