/** Who is signed in, and in which organisation they work.
 *
 * The token is stored in localStorage, so that a second tab and a link to a field work. It expires (after 12 hours, or as
 * Supabase Auth is configured), and signing out removes it. Only the page's own scripts run here (see the policy in
 * api/web_ui.py), and the token is sent only in the Authorization header. */

import { persisted, usePersisted, type Persisted } from '../shared/persisted';

export interface Session {
  token: string | null;
  /** null: the personal organisation. */
  organisationId: string | null;
  /** Why the last session ended, as a sentence. */
  ended: string | null;
}

const SIGNED_OUT: Session = { token: null, organisationId: null, ended: null };

const store = persisted<Session>('fieldmark.session', (stored) => {
  const saved = (stored ?? {}) as Partial<Session>;
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  return { token: text(saved.token), organisationId: text(saved.organisationId), ended: text(saved.ended) };
});

const listeners = new Set<() => void>();
let linked: string | null = null;

/** The token of a sign-in link, until the person confirms it. It is not stored. */
export const offeredToken: Persisted<string | null> = {
  get: () => linked,
  set(token) {
    linked = token;
    for (const listener of listeners) listener();
  },
  subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

let tokenSource: (() => Promise<string | null>) | null = null;

export const session = {
  get: store.get,
  subscribe: store.subscribe,

  signIn(token: string): void {
    const same = subjectOf(token) === subjectOf(store.get().token ?? '');
    store.set({ token, organisationId: same ? store.get().organisationId : null, ended: null });
    offeredToken.set(null);
  },

  selectOrganisation(organisationId: string | null): void {
    store.set({ ...store.get(), organisationId });
  },

  signOut(): void {
    store.set(SIGNED_OUT);
  },

  /** The service no longer accepts the token. */
  expire(reason: string): void {
    store.set({ ...SIGNED_OUT, ended: reason });
  },

  /** `source` returns a fresh token before each call (Supabase Auth). */
  setTokenSource(source: (() => Promise<string | null>) | null): void {
    tokenSource = source;
  },

  async refresh(): Promise<void> {
    if (tokenSource === null) return;
    const token = await tokenSource();
    if (token !== null && token !== store.get().token) store.set({ ...store.get(), token });
  },
};

export function useSession(): Session {
  return usePersisted(store);
}

/** Return a key for the account and organisation. What was loaded under one key must not be shown under another. */
export function identityKey({ token, organisationId }: Session): string {
  return `${token === null ? '' : subjectOf(token)} ${organisationId ?? ''}`;
}

/** Return the user id in a token, unverified: the service verifies it. */
export function subjectOf(token: string): string | null {
  return (claimsOf(token)?.sub as string | undefined) ?? null;
}

export function isExpired(token: string, now = Date.now()): boolean {
  const end = claimsOf(token)?.exp;
  return typeof end !== 'number' || end * 1000 <= now;
}

function claimsOf(token: string): Record<string, unknown> | null {
  try {
    const part = (token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/');
    return JSON.parse(atob(part)) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** Return the token of a sign-in link (#token=…), and remove it from the address and the history. */
export function takeLinkToken(): string | null {
  const found = /^#token=([\w.-]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(history.state, '', location.pathname + location.search);
  return found[1] ?? null;
}
