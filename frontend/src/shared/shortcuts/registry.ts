/** All active keyboard shortcuts. The dialog behind `?` lists them; people can change each or turn all off (WCAG 2.1.4). */

import type en from '../../locales/en.json';
import { persisted } from '../persisted';

type Actions = typeof en.shortcuts.actions;
export type ShortcutArea = keyof Actions;
export type ShortcutId = { [Area in ShortcutArea]: `${Area}.${keyof Actions[Area] & string}` }[ShortcutArea];

export interface Shortcut {
  /** Stable: people's own keys are stored under it. Its text is `shortcuts.actions.<id>`. */
  id: ShortcutId;
  /** The default, as `keyName` returns it: "j", "Shift+Enter", "Mod+k"; or two keys, one after the other: "g d". */
  keys: string;
  /** It also works while a text is being typed. */
  inInputs?: boolean;
}

interface Active extends Shortcut {
  act: (event: KeyboardEvent) => void;
}

interface Choice {
  off: boolean;
  keys: Record<string, string>;
}

export const choice = persisted<Choice>('fieldmark.shortcuts', (stored) => {
  const saved = (stored ?? {}) as Partial<Choice>;
  const keys = Object.entries(saved.keys ?? {}).filter(([, key]) => typeof key === 'string');
  return { off: saved.off === true, keys: Object.fromEntries(keys) };
});

const active = new Map<string, Active[]>();
const listeners = new Set<() => void>();
let listed: Shortcut[] = [];

/** Activate a shortcut. Return a function that deactivates it. Of two with the same id the later one is used. */
export function addShortcut(shortcut: Active): () => void {
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

/** Return the person's keys for a shortcut; null if they removed it. */
export function keysOf(shortcut: Shortcut): string | null {
  const own = choice.get().keys[shortcut.id];
  return own === undefined ? shortcut.keys : own || null;
}

/** Return the name of the pressed keys. "Mod" is Ctrl, or ⌘ on a Mac. */
export function keyName(event: KeyboardEvent): string {
  const key = event.key === ' ' ? 'Space' : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const isSymbol = event.key.length === 1 && event.key.toLowerCase() === event.key.toUpperCase();
  const parts = [
    event.ctrlKey || event.metaKey ? 'Mod' : '',
    event.altKey ? 'Alt' : '',
    event.shiftKey && !isSymbol ? 'Shift' : '',
  ];
  return [...parts.filter(Boolean), key].join('+');
}

function isEditable(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
  );
}

/** Whether the focused element handles the key itself: Enter and Space in buttons, all keys in menus and dialogs. */
function isHandledByTarget(event: KeyboardEvent): boolean {
  if (!(event.target instanceof HTMLElement)) return false;
  if (event.target.closest('[role="menu"], [role="listbox"], [role="dialog"]') !== null) return true;
  return (event.key === 'Enter' || event.key === ' ') && event.target.closest('button, a, summary') !== null;
}

/** How long the second key of two may take. */
const SECOND_KEY_MS = 1500;

export function listen(): () => void {
  let first: { key: string; at: number } | null = null;
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || choice.get().off || isHandledByTarget(event)) return;
    if (['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) return;
    const isTyping = isEditable(event.target);
    const usable = listed.filter((shortcut) => !isTyping || shortcut.inInputs === true);
    const name = keyName(event);
    const both = first !== null && event.timeStamp - first.at < SECOND_KEY_MS ? `${first.key} ${name}` : null;
    first = null;
    // A page's shortcut, which was added later, counts more than one of the frame around it.
    const withKeys = (keys: string) => usable.findLast((shortcut) => keysOf(shortcut) === keys) as Active | undefined;
    const found = (both === null ? undefined : withKeys(both)) ?? withKeys(name);
    if (found !== undefined) {
      event.preventDefault();
      found.act(event);
    } else if (usable.some((shortcut) => keysOf(shortcut)?.startsWith(`${name} `) === true)) {
      first = { key: name, at: event.timeStamp };
    }
  };
  document.addEventListener('keydown', pressed);
  return () => document.removeEventListener('keydown', pressed);
}
