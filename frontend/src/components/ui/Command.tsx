/** A list of commands over the page, chosen by typing: the frame of ⌘K. What it finds is decided by its caller. */

import { Autocomplete } from '@base-ui/react/autocomplete';
import { Dialog } from '@base-ui/react/dialog';
import { Search } from 'lucide-react';
import type { KeyboardEvent, ReactNode } from 'react';
import { cn } from './cn';
import { Kbd } from './Kbd';
import { backdropClass } from './popup';

export interface CommandItem {
  id: string;
  /** Left of the text: an icon or a thumbnail. */
  sign?: ReactNode;
  label: ReactNode;
  /** Beside the text, lighter. */
  hint?: ReactNode;
  /** At the right: keys or a status. */
  end?: ReactNode;
  act: () => void;
}

export interface CommandGroup {
  id: string;
  label: string;
  count?: ReactNode;
  items: CommandItem[];
}

interface Props {
  open: boolean;
  onClose: () => void;
  /** The accessible name, and the text in the empty input. */
  label: string;
  text: string;
  onText: (text: string) => void;
  groups: CommandGroup[];
  /** Shown where nothing is found. */
  empty: ReactNode;
  /** The row at the foot. */
  foot?: ReactNode;
  onKeyDown?: (event: KeyboardEvent<HTMLInputElement>) => void;
}

export function Command({ open, onClose, label, text, onText, groups, empty, foot, onKeyDown }: Props) {
  const shown = groups.filter((group) => group.items.length > 0);
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={backdropClass} />
        <Dialog.Popup
          aria-label={label}
          className="fixed top-[10dvh] left-1/2 z-50 flex max-h-[75dvh] w-[min(40rem,calc(100vw-1rem))] -translate-x-1/2 flex-col overflow-hidden rounded-xl border border-border bg-popover text-foreground shadow-lg outline-none max-sm:top-2">
          <Autocomplete.Root
            open
            inline
            mode="none"
            autoHighlight="always"
            keepHighlight
            items={shown}
            value={text}
            onValueChange={(next, { reason }) => reason !== 'item-press' && onText(next)}
            itemToStringValue={(item: unknown) => (item as CommandItem).id}>
            <div className="flex items-center gap-3 border-b border-border px-4">
              <Search size={17} className="shrink-0 text-muted-foreground" aria-hidden="true" />
              <Autocomplete.Input
                aria-label={label}
                placeholder={label}
                onKeyDown={onKeyDown}
                className="h-12 min-w-0 flex-1 border-0 bg-transparent p-0 text-lg outline-none"
              />
              <Dialog.Close className="rounded-xs">
                <Kbd>Esc</Kbd>
                <span className="sr-only">Esc</span>
              </Dialog.Close>
            </div>
            <div className="min-h-0 flex-1 overflow-y-auto overscroll-contain p-2">
              <Autocomplete.Empty>
                <div className="px-2 py-6 text-center text-muted-foreground empty:hidden">{empty}</div>
              </Autocomplete.Empty>
              <Autocomplete.List>
                {(group: CommandGroup) => (
                  <Autocomplete.Group key={group.id} items={group.items} className="mb-1">
                    <Autocomplete.GroupLabel className="flex justify-between px-2 py-1 text-xs text-muted-foreground">
                      <span>{group.label}</span>
                      {group.count !== undefined && <span>{group.count}</span>}
                    </Autocomplete.GroupLabel>
                    <Autocomplete.Collection>
                      {(item: CommandItem) => (
                        <Autocomplete.Item
                          key={item.id}
                          value={item}
                          onClick={item.act}
                          className={cn(
                            'flex min-h-10 cursor-default items-center gap-3 rounded-md px-2 py-1 outline-none select-none',
                            'data-highlighted:bg-accent max-sm:min-h-11',
                          )}>
                          <span className="flex w-6 shrink-0 justify-center text-muted-foreground">{item.sign}</span>
                          <span className="min-w-0 shrink-0 truncate font-medium max-sm:max-w-full max-sm:shrink">
                            {item.label}
                          </span>
                          <span className="min-w-0 flex-1 truncate text-xs text-muted-foreground">{item.hint}</span>
                          <span className="flex shrink-0 items-center gap-1 text-xs text-muted-foreground">
                            {item.end}
                          </span>
                        </Autocomplete.Item>
                      )}
                    </Autocomplete.Collection>
                  </Autocomplete.Group>
                )}
              </Autocomplete.List>
            </div>
            {foot !== undefined && (
              <div className="flex gap-4 border-t border-border bg-sidebar px-4 py-2 text-xs text-muted-foreground max-sm:hidden">
                {foot}
              </div>
            )}
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
