/** Makes a shortcut hold while a component is there. */

import { useEffect, useRef } from 'react';
import { add, type Shortcut } from './registry';

export function useShortcut(shortcut: Shortcut, act: (event: KeyboardEvent) => void, holds = true): void {
  const { id, area, words, keys } = shortcut;
  const latest = useRef(act);
  useEffect(() => {
    latest.current = act;
  });
  useEffect(() => {
    if (!holds) return undefined;
    return add({ id, area, words, keys, act: (event) => latest.current(event) });
  }, [id, area, words, keys, holds]);
}
