/** All values of a document are decided: it is marked as reviewed, whatever its schema still says. */

import type { ReactNode } from 'react';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { EmptyState } from '../shared/Notice';

interface Props {
  filename: string;
  problems: readonly string[];
  isPending: boolean;
  onFinish: () => void;
  onSkip: () => void;
  children: ReactNode;
}

export function FinishCard({ filename, problems, isPending, onFinish, onSkip, children }: Props) {
  return (
    <EmptyState title={`${visibleText(filename)}: all values decided`}>
      {children}
      {problems.length > 0 && (
        <ul aria-label="Problems that stay">
          {problems.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      )}
      <p>
        <Button
          kind="main"
          autoFocus
          disabled={isPending}
          onClick={onFinish}
          onKeyDown={(event) => {
            if (event.key === 'Escape') onSkip();
          }}
        >
          Mark as reviewed <kbd>Enter</kbd>
        </Button>{' '}
        <Button kind="quiet" onClick={onSkip}>
          Skip <kbd>Esc</kbd>
        </Button>
      </p>
    </EmptyState>
  );
}
