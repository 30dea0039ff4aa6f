/** The field that is being written takes words off the page: one that is clicked, or all within a drawn rectangle. */

import { useEffect, useRef, useSyncExternalStore } from 'react';

/** With `isMore` the words come behind what is there. */
export type Take = (words: string, isMore: boolean) => void;

let taker: Take | null = null;
const listeners = new Set<() => void>();

function change(next: Take | null): void {
  taker = next;
  for (const listener of listeners) listener();
}

/** Takes what is picked for as long as a component is there. */
export function useTaker(take: Take): void {
  const latest = useRef(take);
  useEffect(() => {
    latest.current = take;
  });
  useEffect(() => {
    const own: Take = (words, isMore) => latest.current(words, isMore);
    change(own);
    return () => {
      if (taker === own) change(null);
    };
  }, []);
}

/** Who takes what is picked; null: nobody, and a click on the page chooses a field. */
export function useTake(): Take | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => taker,
  );
}
