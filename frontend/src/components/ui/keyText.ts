/** The names of keys, as the keyboards of this system have them. */

const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Return "⌘K" as it is on a Mac, else "Ctrl K". */
export function keyText(keys: string): string {
  return IS_MAC ? keys : keys.replaceAll('⌘', 'Ctrl ');
}
