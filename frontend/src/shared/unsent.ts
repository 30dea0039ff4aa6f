/** Changes of a person that are not saved yet. Without a connection they wait, and are sent once it is back. */

import { useSyncExternalStore } from 'react';
import { ConnectionLost } from '../api/client';

const RETRY_MS = 2000;

let open = 0;
let waiting = 0;
const listeners = new Set<() => void>();

function count(change: { open?: number; waiting?: number }): void {
  const before = open;
  open += change.open ?? 0;
  waiting += change.waiting ?? 0;
  // What is shown before it is saved would be lost with the window: the browser asks first.
  if (before === 0 && open > 0) addEventListener('beforeunload', ask);
  if (open === 0) removeEventListener('beforeunload', ask);
  for (const listener of listeners) listener();
}

function ask(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

/** Run `save`, and count it as unsaved until it ends. */
export async function saving<T>(save: () => Promise<T>): Promise<T> {
  count({ open: 1 });
  try {
    return await save();
  } finally {
    count({ open: -1 });
  }
}

/** Send a request. Without a connection, send it again until there is one. */
export async function untilSent<T>(send: () => Promise<T>): Promise<T> {
  let isWaiting = false;
  try {
    for (;;) {
      try {
        return await send();
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
        if (!isWaiting) count({ waiting: 1 });
        isWaiting = true;
        await connection();
      }
    }
  } finally {
    if (isWaiting) count({ waiting: -1 });
  }
}

function connection(): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener('online', done);
      resolve();
    };
    const timer = setTimeout(done, RETRY_MS);
    addEventListener('online', done);
  });
}

/** Return how many changes wait for the connection. */
export function useUnsent(): number {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => (waiting > 0 ? open : 0),
  );
}
