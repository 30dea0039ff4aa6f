import { describe, expect, test } from 'vitest';
import type { RunEvent } from '../api/types';
import { INITIAL_STATE, isRunning, runReducer, type RunState } from './runReducer';

const RUN = '00000000-0000-0000-0000-000000000001';
const USAGE = {
  turns: 1,
  input_tokens: 1,
  output_tokens: 1,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};

function after(state: RunState, ...numbered: [number | undefined, object][]): RunState {
  return at(0, state, ...numbered);
}

function at(moment: number, state: RunState, ...numbered: [number | undefined, object][]): RunState {
  const events = numbered.map(([id, event]) =>
    id === undefined ? { event: event as RunEvent } : { id, event: event as RunEvent },
  );
  return runReducer(state, { type: 'events', events: events, at: moment });
}
const startedRun = after(INITIAL_STATE, [1, { type: 'run', run_id: RUN, extraction_id: 'e' }]);
const running = {
  type: 'tool',
  tool: 'extract_fields',
  call_id: 'c',
  status: 'running',
  message: 'Saving',
  input: { a: 1 },
};
const ended = {
  type: 'tool_result',
  tool_result: 'extract_fields',
  call_id: 'c',
  status: 'complete',
  message: 'Saved',
  duration_ms: 5,
};
const preview = (path: string, callId = 'c') => ({ type: 'preview', call_id: callId, path, value: 1 });

describe('drafts', () => {
  test('are extended by deltas and replaced by the complete text', () => {
    const half = after(
      startedRun,
      [undefined, { type: 'text_delta', text_delta: 'I re' }],
      [undefined, { type: 'text_delta', text_delta: 'ad' }],
    );
    expect(half.draft).toEqual({ kind: 'text', text: 'I read', since: 0 });
    const whole = after(half, [2, { type: 'text', text: 'I read it.' }]);
    expect(whole.draft).toBeNull();
    expect(whole.steps).toEqual([{ kind: 'text', key: '2', text: 'I read it.' }]);
  });

  test('end with the next numbered event', () => {
    const half = after(startedRun, [undefined, { type: 'thinking_delta', thinking_delta: 'Hm' }]);
    expect(after(half, [2, { type: 'retry', retry: 'Busy.', wait_s: 1 }]).draft).toBeNull();
  });

  test('start over with another kind', () => {
    const state = after(
      startedRun,
      [undefined, { type: 'thinking_delta', thinking_delta: 'Hm' }],
      [undefined, { type: 'text_delta', text_delta: 'So' }],
    );
    expect(state.draft).toEqual({ kind: 'text', text: 'So', since: 0 });
  });

  test('are timed from their first delta', () => {
    const more = at(700, at(500, startedRun, [undefined, { type: 'thinking_delta', thinking_delta: 'Hm' }]), [
      undefined,
      { type: 'thinking_delta', thinking_delta: '!' },
    ]);
    expect(more.draft).toEqual({ kind: 'thinking', text: 'Hm!', since: 500 });
    expect(at(1500, more, [2, { type: 'thinking', thinking: 'Hm!' }]).steps).toEqual([
      { kind: 'thinking', key: '2', text: 'Hm!', durationMs: 1000 },
    ]);
    expect(at(1500, startedRun, [2, { type: 'thinking', thinking: 'Hm!' }]).steps).toEqual([
      { kind: 'thinking', key: '2', text: 'Hm!', durationMs: undefined },
    ]);
  });
});

test('an approved call that starts other runs is not shown as one to approve, though it has no result yet', () => {
  const call = { call_id: 'c', tool: 'extract_row', input: {}, message: 'Reading', changes: [] };
  const asking = after(startedRun, [2, { type: 'approval', approval: call, run_id: RUN }]);
  expect(asking.phase).toBe('approval');
  expect(runReducer(asking, { type: 'decided', callId: 'other' })).toBe(asking);
  const decided = runReducer(asking, { type: 'decided', callId: 'c' });
  expect([decided.phase, decided.approval]).toEqual(['working', null]);
  const read = after(asking, [undefined, { type: 'progress', call_id: 'c', done: 1, failed: 0, left: 1, cost: 0 }]);
  expect([read.phase, read.approval]).toEqual(['working', null]);
});

describe('previews', () => {
  const shown = after(
    startedRun,
    [undefined, preview('total')],
    [undefined, preview('items[0].price')],
    [undefined, preview('tax', 'd')],
  );

  test('are shown until the path is stored', () => {
    const state = after(shown, [
      2,
      { type: 'changed', version: 1, changed: [{ path: 'total', value: 1, confidence: 1, evidence: null }] },
    ]);
    expect([...state.previews.keys()]).toEqual(['items[0].price', 'tax']);
    expect(state.changed.get('total')).toBe(1);
    expect(state.version).toBe(1);
  });

  test.each([
    [{ ...ended }, ['tax']],
    [{ ...ended, status: 'error' }, ['tax']],
    [running, ['total', 'items[0].price', 'tax']],
  ])('of a call go when it ends: %s', (event, left) => {
    expect([...after(shown, [2, event]).previews.keys()]).toEqual(left);
  });

  test('are withdrawn, for one call or for all', () => {
    expect([...after(shown, [undefined, { type: 'preview_withdrawn', call_id: 'd' }]).previews.keys()]).toEqual([
      'total',
      'items[0].price',
    ]);
    expect(after(shown, [undefined, { type: 'preview_withdrawn' }]).previews.size).toBe(0);
  });

  test.each(['complete', 'error', 'approval'])('end with the event %s', (type) => {
    const event = {
      type,
      run_id: RUN,
      error: '',
      code: 'cancelled',
      cost: null,
      usage: USAGE,
      approval: { call_id: 'c' },
    };
    expect(after(shown, [2, event]).previews.size).toBe(0);
  });
});

describe('calls', () => {
  test('keep their input when they end', () => {
    const state = after(startedRun, [2, running], [3, { ...ended, output: 'Saved.' }]);
    expect(state.steps).toEqual([
      {
        kind: 'tool',
        key: '2',
        callId: 'c',
        tool: 'extract_fields',
        message: 'Saved',
        status: 'complete',
        input: { a: 1 },
        output: 'Saved.',
        error: undefined,
        code: undefined,
        durationMs: 5,
        details: undefined,
        files: [],
      },
    ]);
  });

  test('wait for approval until they end', () => {
    const waits = after(startedRun, [
      2,
      { type: 'approval', run_id: RUN, approval: { call_id: 'c', tool: 't', input: {}, message: 'm', changes: [] } },
    ]);
    expect([waits.phase, waits.approval?.runId, isRunning(waits)]).toEqual(['approval', RUN, false]);
    const decided = after(waits, [3, ended]);
    expect([decided.phase, decided.approval]).toEqual(['working', null]);
  });
});

describe('a child run', () => {
  const OTHER = '00000000-0000-0000-0000-000000000002';
  const child = (event: object, parent_call_id = 'c') => ({ type: 'child', parent_call_id, run_id: OTHER, event });
  const talk = after(INITIAL_STATE, [1, { type: 'run', run_id: RUN }], [2, running]);
  const parts = (state: RunState) => state.steps.flatMap((step) => (step.kind === 'tool' ? (step.children ?? []) : []));
  const started = after(talk, [3, child({ type: 'run', run_id: OTHER, extraction_id: 'e' })]);

  test('is shown at the call that started it', () => {
    const state = after(
      started,
      [4, child({ ...running, call_id: 'd' })],
      [undefined, child({ type: 'text_delta', text_delta: 'So' })],
    );
    const [part] = parts(state);
    expect([part?.runId, part?.steps.length, part?.draft?.text]).toEqual([OTHER, 1, 'So']);
    expect([state.steps.length, state.draft]).toEqual([1, null]);
    expect(parts(after(state, [5, ended]))).toEqual([part]);
  });

  test('shows its changes, unless this run changes another extraction', () => {
    const state = after(started, [undefined, child(preview('total'))]);
    expect([state.extractionId, [...state.previews.keys()]]).toEqual(['e', ['total']]);
    const stored = after(state, [
      4,
      child({ type: 'changed', version: 3, changed: [{ path: 'total', value: 1, confidence: 1, evidence: null }] }),
    ]);
    expect([stored.previews.size, stored.changed.get('total'), stored.version]).toEqual([0, 3, 3]);
    const elsewhere = after({ ...started, extractionId: 'another' }, [undefined, child(preview('total'))]);
    expect([elsewhere.extractionId, elsewhere.previews.size]).toEqual(['another', 0]);
  });

  test('asks for approval in this run', () => {
    const waits = after(started, [
      4,
      child({
        type: 'approval',
        run_id: OTHER,
        approval: { call_id: 'd', tool: 't', input: {}, message: 'm', changes: [] },
      }),
    ]);
    expect([waits.phase, waits.approval?.runId, waits.approval?.call.call_id]).toEqual(['approval', OTHER, 'd']);
    const decided = after(waits, [5, child({ ...ended, call_id: 'd' })]);
    expect([decided.phase, decided.approval]).toEqual(['working', null]);
  });

  test('applies no event twice, and does not end this run', () => {
    const ended = after(started, [
      4,
      child({ type: 'complete', complete: true, cost: 0.01, usage: USAGE, extraction_id: 'e' }),
    ]);
    expect(after(ended, [3, child({ type: 'run', run_id: OTHER })], [4, child({ type: 'text', text: 'A' })])).toBe(
      ended,
    );
    expect([parts(ended)[0]?.phase, ended.phase, ended.costUsd]).toEqual(['complete', 'working', null]);
  });
});

test('events are applied once after a reconnect', () => {
  const once = after(startedRun, [2, { type: 'text', text: 'A' }], [3, running]);
  expect(after(once, [1, { type: 'run', run_id: RUN }], [2, { type: 'text', text: 'A' }], [3, running])).toBe(once);
});

test('a lost connection is shown until the next event', () => {
  const lost = runReducer(startedRun, { type: 'lost' });
  expect(lost.lost).toBe(true);
  expect(after(lost, [2, { type: 'text', text: 'A' }]).lost).toBe(false);
});

test('the end of a run', () => {
  const done = after(startedRun, [2, { type: 'complete', complete: true, cost: 0.01, usage: USAGE }]);
  expect([done.phase, done.costUsd, done.extractionId, isRunning(done)]).toEqual(['complete', 0.01, 'e', false]);
  const failed = after(startedRun, [2, { type: 'error', error: 'No.', code: 'cancelled', run_id: RUN }]);
  expect([failed.phase, failed.error]).toEqual(['failed', { code: 'cancelled', message: 'No.' }]);
});

test('unknown events are ignored', () => {
  expect(after(startedRun, [2, { type: 'something_new' }]).phase).toBe('working');
});
