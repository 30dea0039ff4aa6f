/** A value that outlives the page, in the browser's storage, and that components can read. */

import { useSyncExternalStore } from 'react';

export interface Persisted<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

/** `read` makes a value of what was stored (null: nothing, or what cannot be read). Other tabs hear of changes. */
export function persisted<T>(key: string, read: (stored: unknown) => T): Persisted<T> {
  const listeners = new Set<() => void>();
  const load = (): T => {
    try {
      return read(JSON.parse(localStorage.getItem(key) ?? 'null'));
    } catch {
      return read(null); // nothing may be stored here, or somebody else stored something there
    }
  };
  let value = load();
  const changed = (next: T) => {
    value = next;
    for (const listener of listeners) listener();
  };
  addEventListener('storage', (event) => {
    if (event.key === key || event.key === null) changed(load());
  });
  return {
    get: () => value,
    set(next) {
      try {
        localStorage.setItem(key, JSON.stringify(next));
      } catch {
        // Then it holds as long as the page.
      }
      changed(next);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function usePersisted<T>(store: Persisted<T>): T {
  return useSyncExternalStore(store.subscribe, store.get);
}
