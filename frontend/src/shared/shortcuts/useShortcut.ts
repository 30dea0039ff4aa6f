/** Activates a shortcut while a component is mounted. */

import { useLayoutEffect, useRef } from 'react';
import { addShortcut, type Shortcut } from './registry';

export function useShortcut(shortcut: Shortcut, act: (event: KeyboardEvent) => void, active = true): void {
  const { id, keys, inInputs = false } = shortcut;
  const latest = useRef(act);
  // In a layout effect, so that a key never acts on an earlier state than the one shown.
  useLayoutEffect(() => {
    latest.current = act;
  });
  useLayoutEffect(() => {
    if (!active) return undefined;
    return addShortcut({ id, keys, inInputs, act: (event) => latest.current(event) });
  }, [id, keys, inInputs, active]);
}
