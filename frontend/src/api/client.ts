/** Every call to the API goes through here, with the person's token and organisation.
 *
 * `api` is typed by our own OpenAPI (`description.d.ts`, generated). It holds only types, so the page can be built without
 * it. A response that is not OK is thrown as `ApiError`. */

import createClient, { type FetchResponse, type Middleware, type RequestBodyOption } from 'openapi-fetch';
import { session } from '../session/session';
import { codeText } from '../shared/codeText';
import { t } from '../shared/i18n';
import { notifyOtherTabs } from '../shared/otherTabs';
import { basePath, serviceAddress } from '../shared/serviceAddress';
import type { paths } from './description';
import type { Box, Problem } from './types';

/** An error response. `code` is stable; the message is for people: in their language if the page has a text for the code,
 * else as the service wrote it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    readonly status: number,
    readonly problem: Problem | undefined,
    message?: string,
  ) {
    super(
      message ??
        (problem === undefined
          ? t('shell.status', { status })
          : codeText('errors', problem.code, codeText('readingErrors', problem.code, problem.detail))),
    );
  }

  get code(): string | undefined {
    return this.problem?.code;
  }
}

/** The service could not be reached. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** The headers with the token and the organisation. The token is sent nowhere else. */
export function credentials(): Record<string, string> {
  const { token, organisationId } = session.get();
  return {
    ...(token !== null && { Authorization: `Bearer ${token}` }),
    ...(organisationId !== null && { 'X-Org-Id': organisationId }),
  };
}

const middleware: Middleware = {
  async onRequest({ request }) {
    await session.refresh();
    for (const [name, value] of Object.entries(credentials())) request.headers.set(name, value);
  },
  async onResponse({ response, request }) {
    if (response.ok) {
      if (request.method !== 'GET') notifyOtherTabs();
      return isJson(response) ? new Response(withExactIntegers(await response.text()), response) : undefined;
    }
    throw await apiErrorOf(response, request.headers.get('Authorization'));
  },
  onError({ error, request }) {
    return request.signal.aborted ? undefined : new ConnectionLost(String(error));
  },
};

function isJson(response: Response): boolean {
  // A response without content may have no body, not even an empty one.
  return response.status !== 204 && response.headers.get('Content-Type')?.startsWith('application/json') === true;
}

/** Return JSON in which an integer is text if a JavaScript number cannot hold all its digits. */
export function withExactIntegers(json: string): string {
  const isInexact = (token: string) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
  return /\d{16}/.test(json) ? json.replace(tokens, (token) => (isInexact(token) ? `"${token}"` : token)) : json;
}

/** Return the error in a response. A 401 ends the session whose token was sent (`sent`: its Authorization header). */
export async function apiErrorOf(response: Response, sent: string | null): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const problem = typeof body === 'object' && body !== null && 'detail' in body ? (body as Problem) : undefined;
  const error = new ApiError(response.status, problem);
  if (response.status === 401 && sent === credentials().Authorization)
    session.expire(problem === undefined ? t('signIn.signedOut') : error.message);
  return error;
}

/** The client that returns whole responses, with their headers. */
export const client = createClient<paths>({ baseUrl: serviceAddress });
client.use(middleware);

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathOf<M extends Method> = {
  [Path in keyof paths]: paths[Path][M] extends { responses: unknown } ? Path : never;
}[keyof paths];
/** The parameters (`path`, `query`, `header`), the body, and a signal that ends the request. */
type Call<Operation> = (Operation extends { parameters: infer Parameters } ? Parameters : never) &
  RequestBodyOption<Operation> & { signal?: AbortSignal };
type Data<Operation extends Record<string, unknown>> = NonNullable<
  FetchResponse<Operation, unknown, 'application/json'>['data']
>;

function caller<M extends Method>(method: M) {
  return async <Path extends PathOf<M>, Operation extends paths[Path][M] & Record<string, unknown>>(
    path: Path,
    ...[call]: Partial<Call<Operation>> extends Call<Operation> ? [call?: Call<Operation>] : [call: Call<Operation>]
  ): Promise<Data<Operation>> => {
    const { body, signal, ...params } = call ?? ({} as Call<Operation>);
    const { data } = await client.request(method, path as never, { params, body, signal } as never);
    return data as Data<Operation>;
  };
}

/** The calls of the API: each returns the body of a successful response. (Errors are thrown.) */
export const api = {
  get: caller('get'),
  post: caller('post'),
  put: caller('put'),
  patch: caller('patch'),
  delete: caller('delete'),
};

interface FileRequest {
  signal?: AbortSignal | undefined;
  /** Sent as JSON, by POST. */
  body?: unknown;
}

/** Fetch a file: an image of a page, an export. */
export async function fetchFile(path: string, request: FileRequest = {}): Promise<Blob> {
  return (await fetchOk(path, request)).blob();
}

/** Fetch an image of a part of a page, with the box that it shows (header `X-Box`). */
export async function fetchCrop(path: string, signal?: AbortSignal): Promise<{ blob: Blob; box: Box | null }> {
  const response = await fetchOk(path, { signal });
  const box = (response.headers.get('X-Box') ?? '').split(',').map(Number);
  return {
    blob: await response.blob(),
    box: box.length === 4 && box.every(Number.isFinite) ? (box as unknown as Box) : null,
  };
}

async function fetchOk(path: string, { signal, body }: FileRequest): Promise<Response> {
  await session.refresh();
  const headers = credentials();
  const sent =
    body === undefined
      ? { headers }
      : { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(basePath + path, { ...sent, ...(signal && { signal }) });
  if (!response.ok) throw await apiErrorOf(response, headers.Authorization ?? null);
  return response;
}
