/** Every key that does something, in one place: the sheet behind `?` shows them, and each can be changed or all switched
 * off (WCAG 2.1.4). A component says what its shortcut does while it is there, with `useShortcut`. */

import { persisted } from '../persisted';

export interface Shortcut {
  /** Stable: what people have changed is kept under it. */
  id: string;
  /** Where it holds: the sheet groups by it. */
  area: string;
  /** What it does. */
  words: string;
  /** As `keyName` has it: "j", "Shift+Enter", "Mod+k". */
  keys: string;
}

interface Active extends Shortcut {
  act: (event: KeyboardEvent) => void;
}

interface Choice {
  off: boolean;
  keys: Record<string, string>;
}

export const choice = persisted<Choice>('fieldmark.shortcuts', (stored) => {
  const said = (stored ?? {}) as Partial<Choice>;
  const keys = Object.entries(said.keys ?? {}).filter(([, key]) => typeof key === 'string');
  return { off: said.off === true, keys: Object.fromEntries(keys) };
});

const active = new Map<string, Active[]>();
const listeners = new Set<() => void>();
let listed: Shortcut[] = [];

/** Makes a shortcut hold until what is returned is called. Of two with one id the later one counts. */
export function add(shortcut: Active): () => void {
  active.set(shortcut.id, [...(active.get(shortcut.id) ?? []), shortcut]);
  relist();
  return () => {
    const others = (active.get(shortcut.id) ?? []).filter((one) => one !== shortcut);
    if (others.length > 0) active.set(shortcut.id, others);
    else active.delete(shortcut.id);
    relist();
  };
}

function relist() {
  listed = [...active.values()].map((same) => same.at(-1)!);
  for (const listener of listeners) listener();
}

export const all = {
  get: () => listed,
  subscribe(listener: () => void) {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
};

/** The keys of a shortcut as this person has them; null where they took them away. */
export function keysOf(shortcut: Shortcut): string | null {
  const own = choice.get().keys[shortcut.id];
  return own === undefined ? shortcut.keys : own || null;
}

/** What was pressed: "Mod" is Ctrl, or ⌘ where there is one. */
export function keyName(event: KeyboardEvent): string {
  const key = event.key === ' ' ? 'Space' : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const isSign = event.key.length === 1 && event.key.toLowerCase() === event.key.toUpperCase();
  const parts = [event.ctrlKey || event.metaKey ? 'Mod' : '', event.altKey ? 'Alt' : '', event.shiftKey && !isSign ? 'Shift' : ''];
  return [...parts.filter(Boolean), key].join('+');
}

function isWritten(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

/** Whether a key belongs to what has the focus: Enter and Space to buttons, arrows to menus. */
function isTheirs(event: KeyboardEvent): boolean {
  if (!(event.target instanceof HTMLElement)) return false;
  if (event.target.closest('[role="menu"], [role="listbox"], [role="dialog"]') !== null) return true;
  return (event.key === 'Enter' || event.key === ' ') && event.target.closest('button, a, summary') !== null;
}

export function listen(): () => void {
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || choice.get().off || isWritten(event.target) || isTheirs(event)) return;
    const name = keyName(event);
    const found = listed.find((shortcut) => keysOf(shortcut) === name) as Active | undefined;
    if (found === undefined) return;
    event.preventDefault();
    found.act(event);
  };
  document.addEventListener('keydown', pressed);
  return () => document.removeEventListener('keydown', pressed);
}
