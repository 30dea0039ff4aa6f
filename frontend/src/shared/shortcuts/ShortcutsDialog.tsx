/** The dialog behind `?`: lists the shortcuts, which can be changed or turned off. */

import { useEffect, useState, useSyncExternalStore } from 'react';
import { Button } from '../../components/ui/Button';
import { Dialog } from '../../components/ui/Dialog';
import { keyText } from '../../components/ui/keyText';
import { Field } from '../../components/ui/Field';
import { Switch } from '../../components/ui/Switch';
import { t } from '../i18n';
import { usePersisted } from '../persisted';
import { all, choice, keyName, keysOf, type ShortcutArea } from './registry';

/** The keys of tables, which are those of spreadsheets and can't be changed. */
const TABLE_KEYS = [
  ['edit', 'Enter'],
  ['confirm', 'Mod+Enter'],
  ['accept', 'Alt+Enter'],
  ['next', 'Alt+↓'],
  ['source', 'Space'],
  ['open', 'Shift+Enter'],
  ['select', 'Shift+Space'],
  ['range', 'Shift+↑ ↓ ← →'],
  ['copy', 'Mod+C Mod+V'],
  ['undo', 'Mod+Z'],
  ['resize', 'Shift+← →'],
] as const;
const ROW = 'flex min-h-7 items-center justify-between gap-3';
const SIGNS = { 'Mod+': '⌘', 'Shift+': '⇧', Enter: '↵', Escape: 'Esc' };

/** As beside the controls: "⌘K", "G H". */
function shownKeys(keys: string | null): string {
  const shown = Object.entries(SIGNS).reduce((text, [key, sign]) => text.replaceAll(key, sign), keys ?? '');
  return keyText(shown.replace(/(?<![a-z])[a-z](?![a-z])/g, (letter) => letter.toUpperCase()));
}
const MODIFIERS = ['Control', 'Shift', 'Alt', 'Meta'];

export function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const shortcuts = useSyncExternalStore(all.subscribe, all.get);
  const { off, keys } = usePersisted(choice);
  const [changing, setChanging] = useState<string | null>(null);

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

  const areas = Map.groupBy(shortcuts, (shortcut) => shortcut.id.split('.')[0] as ShortcutArea);
  return (
    <Dialog title={t('shortcuts.title')} open onClose={onClose}>
      <Field layout="row" label={t('shortcuts.enabled')}>
        <Switch checked={!off} onChange={(isOn) => choice.set({ off: !isOn, keys })} />
      </Field>
      {[...areas].map(([area, group]) => (
        <section key={area} className="grid gap-0.5" aria-label={t(`shortcuts.areas.${area}`)}>
          <h3 className="mb-1 text-xs font-normal text-muted-foreground">{t(`shortcuts.areas.${area}`)}</h3>
          {group.map((shortcut) => (
            <div key={shortcut.id} className={ROW}>
              <span>{t(`shortcuts.actions.${shortcut.id}`)}</span>
              <Button className="min-w-20 text-xs" onClick={() => setChanging(shortcut.id)}>
                {changing === shortcut.id ? t('shortcuts.press') : shownKeys(keysOf(shortcut)) || t('shortcuts.notSet')}
              </Button>
            </div>
          ))}
        </section>
      ))}
      <section className="grid gap-0.5" aria-label={t('shortcuts.inTables')}>
        <h3 className="mb-1 text-xs font-normal text-muted-foreground">{t('shortcuts.inTables')}</h3>
        {TABLE_KEYS.map(([action, keys]) => (
          <div key={action} className={ROW}>
            <span>{t(`shortcuts.table.${action}`)}</span>
            <kbd className="text-xs text-muted-foreground">{shownKeys(keys)}</kbd>
          </div>
        ))}
      </section>
      <div className={ROW}>
        <span className="text-xs text-muted-foreground">{t('shortcuts.hint')}</span>
        <Button onClick={() => choice.set({ off: false, keys: {} })}>{t('shortcuts.reset')}</Button>
      </div>
    </Dialog>
  );
}
