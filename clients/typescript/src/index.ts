/** Fieldmark's API: the verbs that programs need, over what is generated from its description. */

import {
  follow,
  type Decision,
  type FollowOptions as AnyFollowOptions,
  type NumberedEvent as AnyNumberedEvent,
} from './following.js';
import { createClient, createConfig, type Client } from './generated/client/index.js';
import {
  decideCall, getDocument, getExtraction, getResult, getRun, listDocuments, listRows,
  readChanges, setFields, startAsk, startCorrect, startExtract, uploadDocument,
} from './generated/sdk.gen.js';
import type {
  AskRequest, Change, ChangedExtraction, ChangeType, CorrectRequest, Document, Extraction, ExtractRequest,
  ListDocumentsData, ListRowsData, NewCallback, Problem, RunAccepted, RunEvent, RunResult, UploadedDocument, WaitingCall,
} from './generated/types.gen.js';
import { pause, withRetries } from './retries.js';

export * from './generated/index.js';
export { isLast, type Decision } from './following.js';
export { InvalidSignature, verifyWebhook, type WebhookEvent } from './webhooks.js';

const POLL_SECONDS = 2;
const MOST_WAITING_SECONDS = 50;
const AT_REST: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'awaiting_approval']);

/** The service refused a request, and why. `code` is stable. `status` is 0 and the code `timeout` if a run took longer
 * than the caller waits. */
export class FieldmarkError extends Error {
  override readonly name = 'FieldmarkError';

  constructor(
    readonly status: number,
    readonly problem: Problem | undefined,
    readonly code: string = problem?.code ?? 'unavailable',
    message?: string,
  ) {
    super(message ?? problem?.detail ?? `The service answered with ${status}.`);
  }
}

export type Key = string | (() => string | undefined | Promise<string | undefined>);
export type NumberedEvent = AnyNumberedEvent<RunEvent>;
export type FollowOptions = AnyFollowOptions<WaitingCall>;

export interface UploadOptions {
  /** Start a run with this schema: its name, id or version. Empty: without a schema. */
  extract?: string;
  /** Make the document a row of this table: the name or id of a stack or schema. */
  table?: string;
  /** Your own key of the document, unique in the organisation. */
  externalId?: string;
  metadata?: Record<string, unknown>;
  password?: string;
  callback?: NewCallback;
  idempotencyKey?: string;
}

/** What became of a file of `uploadMany`: a document or an error. */
export interface Uploaded {
  file: File;
  document?: UploadedDocument;
  error?: FieldmarkError;
}

/** A row of a table with its plain values. */
export type Row = { document_id: string; filename: string } & Record<string, unknown>;

/** A service, and its caller: a key (`fm_…`) or a token, and one of the caller's organisations. For a token that is
 * refreshed, such as a session's of Supabase, give a function: it is called for each request. */
export class Fieldmark {
  readonly client: Client;

  constructor(options: { baseUrl: string; key: Key; organisationId?: string; fetch?: typeof fetch }) {
    const organisation = options.organisationId === undefined ? {} : { 'X-Org-Id': options.organisationId };
    // Without it, a call that starts a run returns the stream of its events, which `follow` reads.
    const headers = { Accept: 'application/json', ...organisation };
    const auth = () => (typeof options.key === 'function' ? options.key() : options.key);
    const send = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.client = createClient(createConfig({ baseUrl: options.baseUrl, auth, headers, fetch: withRetries(send) }));
    this.client.interceptors.error.use((problem, response) => {
      // Without a response the service was not reached; that error explains itself.
      return response === undefined ? problem : new FieldmarkError(response.status, asProblem(problem));
    });
  }

  /** Spread into a generated function's options: this client, and refusals are thrown as a FieldmarkError. */
  get call(): { client: Client; throwOnError: true } {
    return { client: this.client, throwOnError: true };
  }

  /** Upload a file. With `extract` a run extracts its fields. */
  async upload(file: File, options: UploadOptions = {}): Promise<UploadedDocument> {
    const { extract, table, externalId, metadata, callback, password, idempotencyKey } = options;
    const body = {
      file,
      ...(externalId !== undefined && { external_id: externalId }),
      ...(metadata !== undefined && { metadata: JSON.stringify(metadata) }),
      ...(callback !== undefined && { callback: JSON.stringify(callback) }),
      ...(password !== undefined && { password }),
    };
    const query = { ...(extract !== undefined && { extract }), ...(table !== undefined && { table }) };
    const headers = { 'idempotency-key': idempotencyKey ?? crypto.randomUUID() };
    return (await uploadDocument({ ...this.call, body, query, headers })).data;
  }

  /** Upload files, `atOnce` of them at the same time. Yield what became of each, in their order. */
  async *uploadMany(
    files: Iterable<File | { file: File; options: UploadOptions }>,
    { atOnce = 4, ...shared }: UploadOptions & { atOnce?: number } = {},
  ): AsyncGenerator<Uploaded> {
    const running: Promise<Uploaded>[] = [];
    for (const one of files) {
      const { file, options } = one instanceof File ? { file: one, options: {} } : one;
      const sent = this.upload(file, { ...shared, ...options }).then(
        (document): Uploaded => ({ file, document }),
        (error: unknown): Uploaded => {
          if (error instanceof FieldmarkError) return { file, error };
          throw error;
        },
      );
      running.push(sent);
      if (running.length >= atOnce) yield await running.shift()!;
    }
    for (const one of running) yield await one;
  }

  /** Start to extract a document's fields. `wait` and `decide` follow the run. */
  extract(body: ExtractRequest, idempotencyKey?: string): Promise<RunAccepted> {
    return this.#start(startExtract({ ...this.call, ...starting(body, idempotencyKey) }));
  }

  /** Start to correct an extraction in words. */
  correct(body: CorrectRequest, idempotencyKey?: string): Promise<RunAccepted> {
    return this.#start(startCorrect({ ...this.call, ...starting(body, idempotencyKey) }));
  }

  /** Start to answer a question about all documents. */
  ask(body: AskRequest, idempotencyKey?: string): Promise<RunAccepted> {
    return this.#start(startAsk({ ...this.call, ...starting(body, idempotencyKey) }));
  }

  /** Wait until a run ends or waits for a decision (`waits_for`). Throw FieldmarkError `timeout`. */
  async wait(runId: string, { seconds = Number.POSITIVE_INFINITY }: { seconds?: number } = {}): Promise<RunResult> {
    const ends = Date.now() + seconds * 1000;
    for (;;) {
      const left = Math.max(0, Math.min(MOST_WAITING_SECONDS, Math.floor((ends - Date.now()) / 1000)));
      const headers = { Prefer: `wait=${left}` };
      const { data } = await getResult({ ...this.call, path: { run_id: runId }, headers });
      const result = data as RunResult;
      if (AT_REST.has(result.status)) return result;
      if (Date.now() >= ends)
        throw new FieldmarkError(0, undefined, 'timeout', `The run ${runId} is still ${result.status}.`);
      if (left === 0) await pause(0.2);
    }
  }

  /**
   * Return the events of a run after `after`, until it ends or waits for a call. After a lost connection it reconnects
   * at the last event, so that no event is missed or repeated. Break out of the loop to stop.
   */
  follow(runId: string, options: FollowOptions = {}): AsyncGenerator<NumberedEvent> {
    return follow<RunEvent, WaitingCall>(
      {
        stream: (id, after, deltas, signal) => this.#stream(id, after, deltas, signal),
        look: async (id) => (await getRun({ ...this.call, path: { run_id: id } })).data,
        decide: (id, callId, decision) => this.decide(id, callId, decision),
        isFinal: (error, deciding) =>
          error instanceof FieldmarkError && error.status < 500 && error.status !== 429 && !(deciding && error.status === 409),
      },
      runId,
      options,
    );
  }

  /** Approve or reject the call that a run waits for. When this returns, the write is stored, and the run goes on. */
  async decide(runId: string, callId: string, decision: Decision): Promise<RunAccepted> {
    const approval = { call_id: callId, ...decision };
    return this.#start(decideCall({ ...this.call, body: { run_id: runId, approvals: [approval], wait: false } }));
  }

  async document(documentId: string): Promise<Document> {
    return (await getDocument({ ...this.call, path: { document_id: documentId } })).data;
  }

  /** Yield documents, newest first, page by page. `filters` are parameters of the API, such as `stage`. */
  async *documents(filters: Omit<NonNullable<ListDocumentsData['query']>, 'limit' | 'before'> = {}): AsyncGenerator<Document> {
    const query: ListDocumentsData['query'] = { ...filters, limit: 200 };
    for (;;) {
      const { data } = await listDocuments({ ...this.call, query });
      yield* data.items;
      if (data.next === null) return;
      query.before = data.next;
    }
  }

  async extraction(extractionId: string): Promise<Extraction> {
    const { data } = await getExtraction({ ...this.call, path: { extraction_id: extractionId } });
    return data as Extraction; // because no `version` is requested
  }

  /** Set fields by path. With `version`, only if the extraction still has it. */
  async setFields(
    extractionId: string,
    values: Record<string, unknown>,
    { version }: { version?: number } = {},
  ): Promise<ChangedExtraction> {
    const headers = version === undefined ? {} : { 'if-match': `"${version}"` };
    const body = Object.entries(values).map(([path, value]) => ({ path, value }));
    return (await setFields({ ...this.call, path: { extraction_id: extractionId }, headers, body })).data;
  }

  /** Return all rows of the table of a schema or stack, by its name or id. `query`: such as `filter` and `sort`. */
  async rows(table: string, query: Omit<NonNullable<ListRowsData['query']>, 'limit' | 'offset'> = {}): Promise<Row[]> {
    const path = { table_id: table };
    const rows: Row[] = [];
    for (;;) {
      const { data } = await listRows({ ...this.call, path, query: { ...query, limit: 500, offset: rows.length } });
      for (const { document_id, filename, cells } of data.items) {
        const values = data.columns.map((column) => [column.path, cells[column.path]?.value ?? null]);
        rows.push({ ...Object.fromEntries(values), document_id, filename });
      }
      if (rows.length >= data.total || data.items.length === 0) return rows;
    }
  }

  /** Yield what happened after a number, oldest first. With `follow`, wait for more. */
  async *changes(
    after = 0,
    { types = [], follow: mayWait = false }: { types?: ChangeType[]; follow?: boolean } = {},
  ): AsyncGenerator<Change> {
    for (;;) {
      const query = { after, limit: 200, ...(types.length > 0 && { type: types }) };
      const { data } = await readChanges({ ...this.call, query });
      yield* data.items;
      after = data.last;
      if (data.has_more) continue;
      if (!mayWait) return;
      await pause(POLL_SECONDS);
    }
  }

  async #start(answer: Promise<{ data: unknown }>): Promise<RunAccepted> {
    return (await answer).data as RunAccepted; // because of `wait: false`
  }

  async #stream(id: string, after: number, deltas: boolean, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const { data } = await this.client.get<ReadableStream<Uint8Array>, Problem, true>({
      url: '/api/runs/{run_id}/events',
      path: { run_id: id },
      query: { deltas },
      headers: { 'Last-Event-ID': String(after) },
      security: [{ scheme: 'bearer', type: 'http' }],
      parseAs: 'stream',
      signal: signal ?? null,
      throwOnError: true,
    });
    return data as unknown as ReadableStream<Uint8Array>;
  }
}

function starting<Body>(body: Body, idempotencyKey = crypto.randomUUID() as string) {
  return { body: { ...body, wait: false }, headers: { 'idempotency-key': idempotencyKey } };
}

function asProblem(answer: unknown): Problem | undefined {
  return typeof answer === 'object' && answer !== null && 'detail' in answer ? (answer as Problem) : undefined;
}
