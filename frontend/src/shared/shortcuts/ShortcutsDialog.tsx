/** The sheet behind `?`: what each key does here, to be changed or switched off. */

import { useEffect, useState, useSyncExternalStore } from 'react';
import { Button } from '../Button';
import { Dialog } from '../Dialog';
import { usePersisted } from '../persisted';
import { all, choice, keyName, keysOf, type Shortcut } from './registry';
import styles from './ShortcutsDialog.module.css';
import { useShortcut } from './useShortcut';

const OWN: Shortcut = { id: 'sheet', area: 'Everywhere', words: 'Show what the keys do', keys: '?' };
const MODIFIERS = ['Control', 'Shift', 'Alt', 'Meta'];

export function ShortcutsDialog({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const shortcuts = useSyncExternalStore(all.subscribe, all.get);
  const { off, keys } = usePersisted(choice);
  const [changing, setChanging] = useState<string | null>(null);
  useShortcut(OWN, () => setOpen(true));

  useEffect(() => {
    if (changing === null) return undefined;
    const take = (event: KeyboardEvent) => {
      if (MODIFIERS.includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === 'Escape') choice.set({ off, keys: { ...keys, [changing]: '' } });
      else choice.set({ off, keys: { ...keys, [changing]: keyName(event) } });
      setChanging(null);
    };
    document.addEventListener('keydown', take, { capture: true });
    return () => document.removeEventListener('keydown', take, { capture: true });
  }, [changing, off, keys]);

  const areas = Map.groupBy(shortcuts, (shortcut) => shortcut.area);
  return (
    <Dialog title="Keys" open={open} onClose={() => setOpen(false)}>
      <label className={styles.off}>
        <input type="checkbox" checked={!off} onChange={(event) => choice.set({ off: !event.target.checked, keys })} />
        Keys do something on this page
      </label>
      {[...areas].map(([area, those]) => (
        <section key={area} className={styles.area} aria-label={area}>
          <h3 className="muted">{area}</h3>
          {those.map((shortcut) => (
            <div key={shortcut.id} className={styles.row}>
              <span>{shortcut.words}</span>
              <Button className={styles.keys} onClick={() => setChanging(shortcut.id)}>
                {changing === shortcut.id ? 'press…' : (keysOf(shortcut) ?? 'none')}
              </Button>
            </div>
          ))}
        </section>
      ))}
      <div className={styles.row}>
        <span className="muted">Press a key’s name to change it; Escape takes it away.</span>
        <Button onClick={() => choice.set({ off: false, keys: {} })}>As they were</Button>
      </div>
    </Dialog>
  );
}
