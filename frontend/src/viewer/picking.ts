/** Picking words on the page into the editor that is open: a clicked word, or all words in a drawn box. */

import { useEffect, useRef, useSyncExternalStore } from 'react';

/** `isMore`: add to the text instead of replacing it. */
export type OnPick = (words: string, isMore: boolean) => void;

let active: OnPick | null = null;
const listeners = new Set<() => void>();

function change(next: OnPick | null): void {
  active = next;
  for (const listener of listeners) listener();
}

/** Receive picked words while the component is mounted. */
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

/** Return the function that receives picked words; null: a click on the page selects a field. */
export function useActivePicker(): OnPick | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => active,
  );
}
