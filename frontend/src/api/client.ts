/** Asks the service: every call of the page goes through here, with the person's token and organisation.
 *
 * `api` is typed by our own OpenAPI (`description.d.ts`, generated). Only types come of it, so the page can be built
 * without it. What the service refuses is thrown as `ApiError`. */

import createClient, { type Middleware } from 'openapi-fetch';
import { session } from '../session/session';
import { notifyOtherTabs } from '../shared/otherTabs';
import type { paths } from './description';
import type { Box, Problem } from './types';

/** What the service refused, and why. `problem.code` is stable; the message is a sentence for people. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    readonly status: number,
    readonly problem: Problem | undefined,
    sentence?: string,
  ) {
    super(sentence ?? problem?.detail ?? `The service answered with ${status}.`);
  }

  get code(): string | undefined {
    return this.problem?.code;
  }
}

/** The headers that say who asks. They are the only place where the token is sent. */
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
      return;
    }
    throw await apiErrorOf(response, request.headers.get('Authorization'));
  },
};

/** What a response that is none says. One that the token is not taken ends the session that it was sent in. */
export async function apiErrorOf(response: Response, sent: string | null): Promise<ApiError> {
  const said: unknown = await response.json().catch(() => undefined);
  const problem = typeof said === 'object' && said !== null && 'detail' in said ? (said as Problem) : undefined;
  if (response.status === 401 && sent === credentials().Authorization) session.expire(problem?.detail);
  return new ApiError(response.status, problem);
}

export const api = createClient<paths>({ baseUrl: location.origin });
api.use(middleware);

/** What was answered. (What was refused has been thrown by then.) */
export async function dataOf<T>(asked: Promise<{ data?: T }>): Promise<NonNullable<T>> {
  return (await asked).data as NonNullable<T>;
}

/** A file of the service: a picture of a page, an export. */
export async function file(path: string, signal?: AbortSignal): Promise<Blob> {
  return (await fetched(path, signal)).blob();
}

/** A picture of a part of a page, and which part that is: `X-Box`. */
export async function picture(path: string, signal?: AbortSignal): Promise<{ blob: Blob; box: Box | null }> {
  const response = await fetched(path, signal);
  const box = (response.headers.get('X-Box') ?? '').split(',').map(Number);
  return { blob: await response.blob(), box: box.length === 4 && box.every(Number.isFinite) ? (box as unknown as Box) : null };
}

async function fetched(path: string, signal?: AbortSignal): Promise<Response> {
  await session.refresh();
  const headers = credentials();
  const response = await fetch(path, { headers, ...(signal && { signal }) });
  if (!response.ok) throw await apiErrorOf(response, headers.Authorization ?? null);
  return response;
}
