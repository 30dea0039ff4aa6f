/** Deleting with a way back: a document is gone from the page at once, and from the service when nobody wants it back.
 * Whoever closes the page meanwhile means it. */

import { useSyncExternalStore } from 'react';
import { credentials, apiErrorOf } from '../api/client';
import { errorMessage } from '../shared/Notice';
import { visibleText } from '../shared/format';
import { notifyOtherTabs } from '../shared/otherTabs';
import { toast } from '../shared/Toasts';

const SECONDS = 7;

let going: ReadonlySet<string> = new Set();
/** Each with who deletes where: meanwhile somebody may act in another organisation. */
const timers = new Map<string, { timer: ReturnType<typeof setTimeout>; headers: Record<string, string> }>();
const listeners = new Set<() => void>();

function publish(next: Set<string>) {
  going = next;
  for (const listener of listeners) listener();
}

/** The ids of documents that are to be deleted and can be had back. */
export function usePendingDeletions(): ReadonlySet<string> {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => going,
  );
}

function keep(id: string) {
  clearTimeout(timers.get(id)?.timer);
  timers.delete(id);
  publish(new Set([...going].filter((one) => one !== id)));
}

export function remove(id: string, name: string, whenGone: () => void): void {
  publish(new Set([...going, id]));
  const headers = credentials();
  const timer = setTimeout(() => {
    timers.delete(id);
    send(id, headers)
      .then(whenGone)
      .catch((error: unknown) => {
        toast(`“${visibleText(name)}” was not deleted. ${errorMessage(error)}`, { urgent: true });
        keep(id);
      });
  }, SECONDS * 1000);
  timers.set(id, { timer, headers });
  const undo = { words: 'Undo', act: () => keep(id) };
  toast(`“${visibleText(name)}” is deleted, with all that was read from it.`, { action: undo, seconds: SECONDS });
}

async function send(id: string, headers: Record<string, string>): Promise<void> {
  const response = await fetch(`/api/documents/${encodeURIComponent(id)}`, { method: 'DELETE', headers, keepalive: true });
  if (!response.ok) throw await apiErrorOf(response, headers.Authorization ?? null);
  notifyOtherTabs();
}

addEventListener('pagehide', () => {
  for (const [id, { headers }] of timers) void send(id, headers);
});
