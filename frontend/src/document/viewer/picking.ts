/** The field that is being written takes words off the page: one that is clicked, or all within a drawn rectangle. */

import { useEffect, useRef, useSyncExternalStore } from 'react';

/** With `isMore` the words come behind what is there. */
export type OnPick = (words: string, isMore: boolean) => void;

let active: OnPick | null = null;
const listeners = new Set<() => void>();

function change(next: OnPick | null): void {
  active = next;
  for (const listener of listeners) listener();
}

/** Takes what is picked for as long as a component is there. */
export function useWordPicker(onPick: OnPick): void {
  const latest = useRef(onPick);
  useEffect(() => {
    latest.current = onPick;
  });
  useEffect(() => {
    const own: OnPick = (words, isMore) => latest.current(words, isMore);
    change(own);
    return () => {
      if (active === own) change(null);
    };
  }, []);
}

/** Who takes what is picked; null: nobody, and a click on the page chooses a field. */
export function useActivePicker(): OnPick | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => active,
  );
}
