/** Starting runs and following their events. The code that follows is shared with clients/typescript. */

import { follow, type FollowedService, type FollowOptions, type NumberedEvent } from '@fieldmark/following';
import { session } from '../session/session';
import { api, credentials, ApiError, apiErrorOf } from './client';
import type { components } from './description';
import type { RunEvent, WaitingCall } from './types';
import { basePath } from '../shared/serviceAddress';

type ExtractRequest = components['schemas']['ExtractRequest'];
export interface Question {
  message: string;
  thread_id?: string;
  filters?: { tags?: string[]; filename?: string; stack_id?: string };
}
export interface ChatMessage {
  document_id: string;
  message: string;
  thread_id?: string;
  mentions?: { type: string; id: string }[];
  approval?: 'ask' | 'auto';
  model?: string;
}
type RequestFor<T> = Partial<T> & { document_id: string };

/** Start an extraction and return the run's id. A retry with the same `key` returns the same run. */
export async function startExtraction(request: RequestFor<ExtractRequest>, key: string): Promise<string> {
  const body = { ...request, wait: false } as ExtractRequest;
  const started = await api.post('/api/agent/extract', { body, header: { 'idempotency-key': key } });
  return (started as { run_id: string }).run_id;
}

/** Start a run that corrects an extraction as described in `message`. Return its id. */
export async function startCorrection(extractionId: string, message: string, key: string): Promise<string> {
  const body = { extraction_id: extractionId, message, wait: false } as components['schemas']['CorrectRequest'];
  const started = await api.post('/api/agent/correct', { body, header: { 'idempotency-key': key } });
  return (started as { run_id: string }).run_id;
}

/** Ask the library agent a question. */
export async function startQuestion(question: Question, key: string): Promise<{ runId: string; threadId: string }> {
  const body = { ...question, wait: false } as components['schemas']['AskRequest'];
  const started = await api.post('/api/agent/ask', { body, header: { 'idempotency-key': key } });
  const { run_id: runId, thread_id: threadId } = started as { run_id: string; thread_id: string };
  return { runId, threadId };
}

/** Send a message to the document agent. */
export async function startTurn(message: ChatMessage, key: string): Promise<{ threadId: string }> {
  const body = { ...message, wait: false } as unknown as components['schemas']['ChatRequest'];
  const started = await api.post('/api/agent/chat', { body, header: { 'idempotency-key': key } });
  return { threadId: (started as { thread_id: string }).thread_id };
}

/** Start a run that fills the table of a stack. Return its id. `max_cost_usd` null: no limit. */
export async function startFill(stackId: string, key: string, options: FillOptions = {}): Promise<string> {
  const { max_cost_usd: limit, ...others } = options;
  const body = {
    stack_id: stackId,
    wait: false,
    ...others,
    ...(limit != null && { max_cost_usd: limit }),
  } as components['schemas']['StackRequest'];
  const started = await api.post('/api/agent/stack', { body, header: { 'idempotency-key': key } });
  return (started as { run_id: string }).run_id;
}

export interface FillOptions {
  instructions?: string;
  approval?: 'ask' | 'auto';
  max_cost_usd?: number | null;
}

/** Start a run that changes the table of a stack as described in `message`. Return its id. */
export async function startStackCorrection(stackId: string, message: string, key: string): Promise<string> {
  const body = { stack_id: stackId, message, wait: false } as components['schemas']['StackCorrectRequest'];
  const started = await api.post('/api/agent/stack_correct', { body, header: { 'idempotency-key': key } });
  return (started as { run_id: string }).run_id;
}

/** Start a run that suggests a schema, a prompt and an extraction for a document. */
export async function startProposal(documentId: string, key: string, model?: string): Promise<void> {
  const body = {
    document_id: documentId,
    wait: false,
    ...(model !== undefined && { model }),
  } as components['schemas']['AutoCreateRequest'];
  await api.post('/api/agent/auto_create', { body, header: { 'idempotency-key': key } });
}

export async function cancelRun(runId: string): Promise<void> {
  await api.post('/api/runs/{run_id}/cancel', { path: { run_id: runId } });
}

const service: FollowedService<WaitingCall> = {
  async stream(runId, after, deltas, signal) {
    await session.refresh();
    const headers: Record<string, string> = {
      ...credentials(),
      Accept: 'text/event-stream',
      'Last-Event-ID': String(after),
    };
    const path = `${basePath}/api/runs/${encodeURIComponent(runId)}/events?deltas=${deltas}`;
    const response = await fetch(path, { headers, ...(signal && { signal }) });
    if (!response.ok || response.body === null) throw await apiErrorOf(response, headers.Authorization ?? null);
    return response.body;
  },
  look: (runId) => api.get('/api/runs/{run_id}', { path: { run_id: runId } }),
  decide: (runId, callId, decision) =>
    api.post('/api/agent/approve', {
      body: { run_id: runId, approvals: [{ call_id: callId, ...decision }], wait: false } as never,
    }),
  isFinal: (error, deciding) =>
    error instanceof ApiError && error.status < 500 && error.status !== 429 && !(deciding && error.status === 409),
};

/** Yield a run's events, across lost connections, until it ends or needs a decision. */
export function followRun(runId: string, options: FollowOptions<WaitingCall>): AsyncGenerator<NumberedEvent<RunEvent>> {
  return follow<RunEvent, WaitingCall>(service, runId, options);
}

/** Approve or reject the call that a run waits for. */
export function decideCall(runId: string, callId: string, decision: Parameters<typeof service.decide>[2]) {
  return service.decide(runId, callId, decision);
}
