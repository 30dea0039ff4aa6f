import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { INITIAL_STATE, type RunState } from './runReducer';
import { RunSteps } from './RunSteps';

afterEach(cleanup);

const show = (state: Partial<RunState>) => {
  const onRetry = vi.fn();
  const { container } = render(<RunSteps state={{ ...INITIAL_STATE, ...state }} onRetry={onRetry} />);
  return { onRetry, text: container.textContent };
};

test('loading steps are shown as loading', () => {
  show({});
  expect(screen.getByRole('status')).toBeDefined();
});

test('steps that could not be loaded are loaded again; those that are gone are not', () => {
  const { onRetry } = show({ phase: 'failed', error: { code: 'not_followed', message: 'Offline.' } });
  screen.getByRole('button').click();
  expect(onRetry).toHaveBeenCalledOnce();
  cleanup();
  expect(show({ phase: 'failed', error: { code: 'events_forgotten', message: 'Gone.' } }).text).toBe('Gone.');
});

test('a list that a call was given, or returned, is text', () => {
  const step = {
    kind: 'tool',
    key: '1',
    callId: '1',
    tool: 'extract_fields',
    message: '',
    status: 'complete',
  } as const;
  const input = {
    fields: { items: [{ name: 'Desk', net: 1.5 }] },
    page_numbers: [1, 2],
    document_id: '01a2',
    confidences: { items: 0.95 },
  };
  const { text } = show({ phase: 'complete', steps: [{ ...step, input, output: '[{"name":"Chair","net":2}]' }] });
  expect(text).toContain('Desk · 1.5');
  expect(text).toContain('1, 2');
  expect(text).toContain('Chair · 2');
  expect(text).not.toMatch(/[[{"]|01a2|0.95|extract_fields/);
});
