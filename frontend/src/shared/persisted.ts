/** A value kept in localStorage that components can subscribe to. Other tabs see changes, too. */

import { useSyncExternalStore } from 'react';

export interface Persisted<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

/** `read` validates what was stored; it gets null where nothing, or nothing readable, was. */
export function persisted<T>(key: string, read: (stored: unknown) => T): Persisted<T> {
  const listeners = new Set<() => void>();
  const load = (): T => {
    try {
      return read(JSON.parse(localStorage.getItem(key) ?? 'null'));
    } catch {
      return read(null); // storage is blocked, or holds something else
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
        // Storage is blocked: the value lasts until the page is closed.
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
