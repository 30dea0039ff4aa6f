/** Makes a shortcut hold while a component is there. */

import { useLayoutEffect, useRef } from 'react';
import { add, type Shortcut } from './registry';

export function useShortcut(shortcut: Shortcut, act: (event: KeyboardEvent) => void, holds = true): void {
  const { id, area, words, keys } = shortcut;
  const latest = useRef(act);
  // Before it is painted: a key means what is seen, and never what was there before.
  useLayoutEffect(() => {
    latest.current = act;
  });
  useLayoutEffect(() => {
    if (!holds) return undefined;
    return add({ id, area, words, keys, act: (event) => latest.current(event) });
  }, [id, area, words, keys, holds]);
}
