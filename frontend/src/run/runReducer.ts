/** The state of a run: a pure reducer over its events. */

import type { NumberedEvent } from '@fieldmark/following';
import type { RunEvent } from '../api/types';
import type { Preview } from '../fields/fieldTree';

export type Step =
  | { kind: 'text'; key: string; text: string }
  /** `durationMs` is known only if the page followed the run live. */
  | { kind: 'thinking'; key: string; text: string; durationMs?: number | undefined }
  | {
      kind: 'tool';
      key: string;
      callId: string;
      tool: string;
      message: string;
      status: 'running' | 'complete' | 'error';
      input?: Record<string, unknown> | undefined;
      output?: string | undefined;
      error?: string | undefined;
      /** The result code. */
      code?: string | undefined;
      durationMs?: number | undefined;
      /** What the call found or changed. */
      details?: Record<string, unknown> | undefined;
      /** Names of the documents that the call is about. */
      files?: readonly string[] | undefined;
      /** Runs started by this call. */
      children?: readonly RunState[] | undefined;
    }
  | { kind: 'retry'; key: string; text: string; code: string; params?: Record<string, unknown> | undefined };

type ToolStep = Extract<Step, { kind: 'tool' }>;
export type Approval = Extract<RunEvent, { type: 'approval' }>['approval'];
export type Citation = Extract<RunEvent, { type: 'citation' }>['citation'];

export interface RunState {
  phase: 'starting' | 'reading' | 'waiting' | 'working' | 'approval' | 'complete' | 'failed';
  /** The number of the last stored event. */
  lastId: number;
  runId: string | null;
  extractionId: string | null;
  pages: { read: number; of: number } | null;
  steps: readonly Step[];
  /** The text or reasoning that the model is writing now. */
  draft: { kind: 'text' | 'thinking'; text: string; since: number } | null;
  previews: ReadonlyMap<string, Preview>;
  /** Paths that this run has changed, with the version of their last change. */
  changed: ReadonlyMap<string, number>;
  version: number | null;
  approval: { runId: string; call: Approval } | null;
  citations: readonly Citation[];
  /** The location that the agent wants to show, and how often it has asked. */
  opened: { location: Citation; times: number } | null;
  costUsd: number | null;
  /** Documents of a stack that its run has read. */
  progress: { done: number; failed: number; left: number } | null;
  error: { code: string; message: string } | null;
  /** The connection was lost; reconnecting. */
  lost: boolean;
}

export const INITIAL_STATE: RunState = {
  phase: 'starting',
  lastId: 0,
  runId: null,
  extractionId: null,
  pages: null,
  steps: [],
  draft: null,
  previews: new Map(),
  changed: new Map(),
  version: null,
  approval: null,
  citations: [],
  opened: null,
  costUsd: null,
  progress: null,
  error: null,
  lost: false,
};

/** `at`: when the events arrived, in milliseconds. */
export type RunAction =
  | { type: 'begin' }
  | { type: 'lost' }
  | { type: 'decided'; callId: string }
  | { type: 'events'; events: readonly NumberedEvent<RunEvent>[]; at: number };

export function runReducer(state: RunState, action: RunAction): RunState {
  switch (action.type) {
    case 'begin':
      return INITIAL_STATE;
    case 'lost':
      return { ...state, lost: true };
    case 'decided':
      // A call that starts other runs ends with them: until then no event says that it was approved.
      return state.approval?.call.call_id === action.callId ? { ...working(state), approval: null } : state;
    case 'events':
      return action.events.reduce((before, one) => applyEvent(before, one, action.at), state);
  }
}

function applyEvent(before: RunState, { id, event }: NumberedEvent<RunEvent>, at: number): RunState {
  // Skip events that were already applied before a reconnect.
  if (id !== undefined && id <= before.lastId) return before;
  let state = before.lost ? { ...before, lost: false } : before;
  // A numbered event completes or discards the draft.
  if (id !== undefined) state = { ...state, lastId: id, draft: null, pages: null };
  const key = String(id ?? `${state.lastId}.`);
  switch (event.type) {
    case 'run':
      return {
        ...state,
        phase: 'working',
        runId: event.run_id,
        extractionId: event.extraction_id ?? state.extractionId,
      };
    case 'reading':
      return { ...state, phase: 'reading', pages: { read: event.pages_read, of: event.page_count } };
    case 'waiting':
      return { ...state, phase: 'waiting' };
    case 'text':
      return { ...working(state), steps: [...state.steps, { kind: 'text', key, text: event.text }] };
    case 'thinking':
      return {
        ...working(state),
        steps: [
          ...state.steps,
          { kind: 'thinking', key, text: event.thinking, durationMs: thinkingDuration(before, at) },
        ],
      };
    case 'text_delta':
      return { ...working(state), draft: extendDraft(state, 'text', event.text_delta, at) };
    case 'thinking_delta':
      return { ...working(state), draft: extendDraft(state, 'thinking', event.thinking_delta, at) };
    case 'tool':
    case 'tool_result': {
      const previews = event.type === 'tool_result' ? without(state.previews, event.call_id) : state.previews;
      const approval = state.approval?.call.call_id === event.call_id ? null : state.approval;
      return { ...working(state), approval, previews, steps: withCall(state.steps, key, event) };
    }
    case 'changed': {
      const changed = new Map(state.changed);
      const previews = new Map(state.previews);
      for (const { path } of event.changed) {
        changed.set(path, event.version);
        previews.delete(path);
      }
      return { ...working(state), changed, previews, version: event.version };
    }
    case 'preview': {
      const previews = new Map(state.previews);
      previews.set(event.path, { callId: event.call_id, value: event.value });
      return { ...working(state), previews };
    }
    case 'preview_withdrawn':
      return { ...state, previews: event.call_id === undefined ? new Map() : without(state.previews, event.call_id) };
    case 'approval':
      return {
        ...state,
        phase: 'approval',
        previews: new Map(),
        approval: { runId: event.run_id, call: event.approval },
      };
    case 'citation':
      return { ...state, citations: [...state.citations, event.citation] };
    case 'open':
      return { ...state, opened: { location: event.open, times: (state.opened?.times ?? 0) + 1 } };
    case 'retry':
      return {
        ...working(state),
        steps: [...state.steps, { kind: 'retry', key, text: event.retry, code: event.code, params: event.params }],
      };
    case 'progress':
      // The call that started the child runs was approved.
      return {
        ...working(state),
        approval: null,
        progress: { done: event.done, failed: event.failed, left: event.left },
      };
    case 'child':
      return withChild(state, id, event, at);
    case 'complete':
      return {
        ...state,
        phase: 'complete',
        approval: null,
        previews: new Map(),
        costUsd: event.cost,
        extractionId: event.extraction_id ?? state.extractionId,
      };
    case 'error':
      return {
        ...state,
        phase: 'failed',
        approval: null,
        previews: new Map(),
        error: { code: event.code, message: event.error },
      };
    default:
      return state; // unknown events of newer versions are ignored
  }
}

function working(state: RunState): RunState {
  return state.phase === 'working' ? state : { ...state, phase: 'working' };
}

function extendDraft(state: RunState, kind: 'text' | 'thinking', delta: string, at: number): RunState['draft'] {
  const before = state.draft?.kind === kind ? state.draft : { text: '', since: at };
  return { kind, text: before.text + delta, since: before.since };
}

function thinkingDuration({ draft }: RunState, at: number): number | undefined {
  return draft?.kind === 'thinking' ? at - draft.since : undefined;
}

/** Apply an event of a child run to the call that started it. */
function withChild(
  before: RunState,
  id: number | undefined,
  event: Extract<RunEvent, { type: 'child' }>,
  at: number,
): RunState {
  const call = before.steps.find((step) => step.kind === 'tool' && step.callId === event.parent_call_id);
  if (call?.kind !== 'tool') return before;
  const children = call.children ?? [];
  const earlier = children.find((one) => one.runId === event.run_id);
  const inner = event.event as unknown as RunEvent;
  const child = applyEvent(
    earlier ?? { ...INITIAL_STATE, runId: event.run_id },
    id === undefined ? { event: inner } : { id, event: inner },
    at,
  );
  const now = earlier === undefined ? [...children, child] : children.map((one) => (one === earlier ? child : one));
  const steps = before.steps.map((step) => (step === call ? { ...call, children: now } : step));
  // If a child run needs approval, this run waits, and shows the child's approval.
  const approval = now.find((one) => one.approval !== null)?.approval ?? null;
  const state: RunState = { ...before, steps, approval, phase: approval === null ? 'working' : 'approval' };
  // Show the child's changes if this run changes no other extraction.
  if (child.extractionId === null || (before.extractionId ?? child.extractionId) !== child.extractionId) return state;
  const { extractionId, previews, version } = child;
  return {
    ...state,
    extractionId,
    previews,
    version: version ?? state.version,
    changed: new Map([...state.changed, ...child.changed]),
  };
}

function without(previews: RunState['previews'], callId: string): RunState['previews'] {
  return new Map([...previews].filter(([, preview]) => preview.callId !== callId));
}

function withCall(
  steps: readonly Step[],
  key: string,
  event: Extract<RunEvent, { type: 'tool' | 'tool_result' }>,
): readonly Step[] {
  const before = steps.find((step) => step.kind === 'tool' && step.callId === event.call_id);
  const { call_id: callId, message, status } = event;
  const known: Pick<ToolStep, 'kind' | 'key' | 'callId' | 'files'> =
    before?.kind === 'tool' ? before : { kind: 'tool', key, callId };
  const step: Step =
    event.type === 'tool'
      ? { ...known, tool: event.tool, message, status, input: event.input, files: filesOf(steps, event.input) }
      : {
          ...known,
          tool: event.tool_result,
          message,
          status,
          output: event.output,
          error: event.error,
          code: event.code,
          durationMs: event.duration_ms,
          details: event.details,
          files: isSearch(event.tool_result) ? known.files : (namesOf(event.details) ?? known.files),
        };
  return before === undefined ? [...steps, step] : steps.map((one) => (one === before ? step : one));
}

/** Return the names of the documents whose ids are arguments of a call, as far as earlier calls have named them. */
function filesOf(steps: readonly Step[], input: Record<string, unknown>): string[] {
  const ids = [
    input.document_id,
    input.doc_id,
    ...[input.document_ids, input.doc_ids].flatMap((one) => (Array.isArray(one) ? one : [])),
  ];
  const named = steps.flatMap((step) => (step.kind === 'tool' ? documentsOf(step.details) : []));
  return ids.flatMap((id) => named.find((one) => one.document_id === id)?.filename ?? []);
}

function namesOf(details: Record<string, unknown> | undefined): string[] | undefined {
  const names = documentsOf(details).flatMap((one) => one.filename ?? []);
  return names.length === 0 ? undefined : [...new Set(names)];
}

function documentsOf(
  details: Record<string, unknown> | undefined,
): readonly { document_id?: string; filename?: string }[] {
  return Array.isArray(details?.documents) ? details.documents : [];
}

/** Whether a tool returns documents that it was not called with. */
function isSearch(tool: string): boolean {
  return /^(search|list|rerank)_documents$/.test(tool);
}

/** Whether the run is working or queued, as opposed to ended or waiting for approval. */
export function isRunning(state: RunState): boolean {
  return !['approval', 'complete', 'failed'].includes(state.phase);
}
