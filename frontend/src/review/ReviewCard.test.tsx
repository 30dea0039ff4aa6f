import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { t } from '../shared/i18n';
import type { ToReviewRow } from './fieldsToReview';
import { ReviewCard } from './ReviewCard';

afterEach(cleanup);

const field = (value: unknown): ToReviewRow => ({
  ...{ kind: 'leaf', path: 'total', label: 'total', depth: 0, value, evidence: undefined, confidence: undefined },
  ...{ lock: undefined, errors: [], status: 'needs_review', reason: 'breaks_rule' },
});

function shown() {
  const onConfirm = vi.fn();
  const onWrite = vi.fn();
  const nothing = () => undefined;
  const card = (value: unknown) => (
    <ReviewCard
      {...{
        documentId: 'd',
        schema: [],
        ruleFixes: [],
        proposal: undefined,
        onConfirm,
        onWrite,
        onUndo: undefined,
        onProposal: nothing,
        onSkip: nothing,
      }}
      field={field(value)}
    />
  );
  const { rerender } = render(card(12));
  return {
    input: screen.getByRole<HTMLInputElement>('textbox'),
    onConfirm,
    onWrite,
    becomes: (value: unknown) => rerender(card(value)),
  };
}

test('a value changed by someone else is shown, and Enter confirms it', () => {
  const { input, onConfirm, onWrite, becomes } = shown();
  becomes(13);
  expect(input.value).toBe('13');
  fireEvent.keyDown(input, { key: 'Enter' });
  expect(onConfirm).toHaveBeenCalledOnce();
  expect(onWrite).not.toHaveBeenCalled();
});

test('typed text is kept when someone else changes the value', () => {
  const { input, onWrite, becomes } = shown();
  fireEvent.change(input, { target: { value: '14' } });
  becomes(13);
  expect(input.value).toBe('14');
  screen.getByText(t('review.someoneChanged', { value: '13' }));
  fireEvent.keyDown(input, { key: 'Enter' });
  expect(onWrite).toHaveBeenCalledWith(14);
});
