/** Starts runs and follows them. The following itself is clients/typescript's: the page only brings its own way to ask. */

import { follow, type FollowedService, type FollowOptions, type Told } from '@fieldmark/following';
import { session } from '../session/session';
import { dataOf, api, credentials, ApiError, apiErrorOf } from './client';
import type { components } from './description';
import type { RunEvent, WaitingCall } from './types';

type ExtractRequest = components['schemas']['ExtractRequest'];
export interface Question {
  message: string;
  thread_id?: string;
  filters?: { tags?: string[]; filename?: string };
}
export interface ChatMessage {
  document_id: string;
  message: string;
  thread_id?: string;
  mentions?: { type: string; id: string }[];
  approval?: 'ask' | 'auto';
  model?: string;
}
type Asked<T> = Partial<T> & { document_id: string };

/** Starts an extraction; it goes on by itself. An answer that was lost leads to the same run when asked again. */
export async function startExtraction(body: Asked<ExtractRequest>, key: string): Promise<string> {
  const asked = { ...body, wait: false } as ExtractRequest;
  const started = await dataOf(
    api.POST('/api/agent/extract', { body: asked, params: { header: { 'idempotency-key': key } } }),
  );
  return (started as { run_id: string }).run_id;
}

/** Has an agent correct an extraction, as it is told in words. */
export async function startCorrection(extractionId: string, message: string, key: string): Promise<string> {
  const asked = { extraction_id: extractionId, message, wait: false } as components['schemas']['CorrectRequest'];
  const started = await dataOf(api.POST('/api/agent/correct', { body: asked, params: { header: { 'idempotency-key': key } } }));
  return (started as { run_id: string }).run_id;
}

/** Asks the library agent; it answers by itself. Asked again with the same key it is the same question. */
export async function startQuestion(body: Question, key: string): Promise<{ runId: string; threadId: string }> {
  const asked = { ...body, wait: false } as components['schemas']['AskRequest'];
  const started = await dataOf(api.POST('/api/agent/ask', { body: asked, params: { header: { 'idempotency-key': key } } }));
  const { run_id: runId, thread_id: threadId } = started as { run_id: string; thread_id: string };
  return { runId, threadId };
}

/** Says something to the agent about a document; it goes on by itself. With the same key again it is the same message. */
export async function startTurn(body: ChatMessage, key: string): Promise<{ threadId: string }> {
  const asked = { ...body, wait: false } as unknown as components['schemas']['ChatRequest'];
  const started = await dataOf(api.POST('/api/agent/chat', { body: asked, params: { header: { 'idempotency-key': key } } }));
  return { threadId: (started as { thread_id: string }).thread_id };
}

/** Has an agent propose a schema, a prompt and an extraction for a document. */
export async function startProposal(documentId: string, key: string, model?: string): Promise<void> {
  const asked = { document_id: documentId, wait: false, ...(model !== undefined && { model }) } as components['schemas']['AutoCreateRequest'];
  await dataOf(api.POST('/api/agent/auto_create', { body: asked, params: { header: { 'idempotency-key': key } } }));
}

export async function cancelRun(runId: string): Promise<void> {
  await api.POST('/api/runs/{run_id}/cancel', { params: { path: { run_id: runId } } });
}

const service: FollowedService<WaitingCall> = {
  async stream(runId, after, deltas, signal) {
    await session.refresh();
    const headers: Record<string, string> = { ...credentials(), Accept: 'text/event-stream', 'Last-Event-ID': String(after) };
    const path = `/api/runs/${encodeURIComponent(runId)}/events?deltas=${deltas}`;
    const response = await fetch(path, { headers, ...(signal && { signal }) });
    if (!response.ok || response.body === null) throw await apiErrorOf(response, headers.Authorization ?? null);
    return response.body;
  },
  look: (runId) => dataOf(api.GET('/api/runs/{run_id}', { params: { path: { run_id: runId } } })),
  decide: (runId, callId, decision) =>
    api.POST('/api/agent/approve', {
      body: { run_id: runId, approvals: [{ call_id: callId, ...decision }], wait: false } as never,
    }),
  isFinal: (error, deciding) =>
    error instanceof ApiError && error.status < 500 && error.status !== 429 && !(deciding && error.status === 409),
};

/** A run's events, across lost connections, to its end or to where a person must decide. */
export function followRun(runId: string, options: FollowOptions<WaitingCall>): AsyncGenerator<Told<RunEvent>> {
  return follow<RunEvent, WaitingCall>(service, runId, options);
}

/** Says what becomes of a call that a run waits for. When this answers, it is done. */
export function decideCall(runId: string, callId: string, decision: Parameters<typeof service.decide>[2]) {
  return service.decide(runId, callId, decision);
}
