/** Shown when all values of a document are reviewed: marks it as reviewed, even if errors of the schema remain. */

import type { ReactNode } from 'react';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { EmptyState } from '../components/ui/EmptyState';

interface Props {
  filename: string;
  /** The extraction has no value at all. */
  isEmpty: boolean;
  problems: readonly string[];
  isPending: boolean;
  onFinish: () => void;
  onSkip: () => void;
  children: ReactNode;
}

export function FinishCard({ filename, isEmpty, problems, isPending, onFinish, onSkip, children }: Props) {
  return (
    <EmptyState title={t(isEmpty ? 'review.noValues' : 'review.allDecided', { name: visibleText(filename) })}>
      {children}
      {problems.length > 0 && (
        <ul aria-label={t('review.remainingProblems')}>
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
          }}>
          {t('document.markReviewed')} <kbd>Enter</kbd>
        </Button>{' '}
        <Button kind="quiet" onClick={onSkip}>
          {t('common.skip')} <kbd>Esc</kbd>
        </Button>
      </p>
    </EmptyState>
  );
}
