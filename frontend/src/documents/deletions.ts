/** Deleting with a way back: a document is gone from the page at once, and from the service when nobody wants it back.
 * Whoever closes the page meanwhile means it. */

import { useSyncExternalStore } from 'react';
import { api, credentials } from '../api/client';
import { sentenceOf } from '../shared/Notice';
import { plain } from '../shared/format';
import { tell } from '../shared/Toasts';

const SECONDS = 7;

let going: ReadonlySet<string> = new Set();
const timers = new Map<string, ReturnType<typeof setTimeout>>();
const listeners = new Set<() => void>();

function publish(next: Set<string>) {
  going = next;
  for (const listener of listeners) listener();
}

/** The ids of documents that are to be deleted and can be had back. */
export function useGoing(): ReadonlySet<string> {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => going,
  );
}

function keep(id: string) {
  clearTimeout(timers.get(id));
  timers.delete(id);
  publish(new Set([...going].filter((one) => one !== id)));
}

export function remove(id: string, name: string, whenGone: () => void): void {
  publish(new Set([...going, id]));
  timers.set(
    id,
    setTimeout(() => {
      timers.delete(id);
      api
        .DELETE('/api/documents/{document_id}', { params: { path: { document_id: id } } })
        .then(whenGone)
        .catch((error: unknown) => {
          tell(`“${plain(name)}” was not deleted. ${sentenceOf(error)}`, { urgent: true });
          keep(id);
        });
    }, SECONDS * 1000),
  );
  const undo = { words: 'Undo', act: () => keep(id) };
  tell(`“${plain(name)}” is deleted, with all that was read from it.`, { action: undo, seconds: SECONDS });
}

addEventListener('pagehide', () => {
  for (const id of timers.keys()) {
    void fetch(`/api/documents/${encodeURIComponent(id)}`, { method: 'DELETE', headers: credentials(), keepalive: true });
  }
});
