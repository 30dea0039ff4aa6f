/** Who is signed in, and in which organisation they act.
 *
 * The token lies in localStorage, so that a second tab and a link to a field work; it ends by itself (after 12 hours, or
 * as Supabase Auth has it), and signing out removes it. No script but the page's own runs here (see the policy in
 * api/page.py), and it is sent in the Authorization header alone. */

import { persisted, usePersisted, type Persisted } from '../shared/persisted';

export interface Session {
  token: string | null;
  /** null: the personal one. */
  organisationId: string | null;
  /** Why the last one ended, in a sentence. */
  ended: string | null;
}

const NOBODY: Session = { token: null, organisationId: null, ended: null };

const store = persisted<Session>('fieldmark.session', (stored) => {
  const said = (stored ?? {}) as Partial<Session>;
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  return { token: text(said.token), organisationId: text(said.organisationId), ended: null };
});

const listeners = new Set<() => void>();
let linked: string | null = null;

/** The token of a link that was opened, until the person says that they sign in with it. It is stored nowhere. */
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
    store.set(NOBODY);
  },

  /** The service takes the token no longer. */
  expire(why: string | undefined): void {
    store.set({ ...NOBODY, ended: why ?? 'You were signed out.' });
  },

  /** With Supabase Auth: who knows a fresh token before each call. */
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

/** Who acts where: what was loaded for one is nothing for another. */
export function identityKey({ token, organisationId }: Session): string {
  return `${token === null ? '' : subjectOf(token)} ${organisationId ?? ''}`;
}

/** Whom a token names. Nothing is proven by that: the service checks it. */
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

/** The token behind the # of a link, taken out of the address at once: it stays in no history. */
export function takeLinkToken(): string | null {
  const found = /^#token=([\w.-]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(history.state, '', location.pathname + location.search);
  return found[1] ?? null;
}
