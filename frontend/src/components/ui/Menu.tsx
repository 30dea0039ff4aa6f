/** A button that opens a menu. */

import { Menu as Base } from '@base-ui/react/menu';
import { Check, ChevronRight, type LucideIcon } from 'lucide-react';
import type { ReactElement, ReactNode } from 'react';
import { cn } from './cn';
import { Kbd } from './Kbd';
import { itemClass, popupClass } from './popup';

interface MenuProps {
  /** The button. The menu's props are merged into its own. */
  trigger: ReactElement<Record<string, unknown>>;
  align?: 'start' | 'end';
  side?: 'top' | 'right' | 'bottom' | 'left';
  className?: string;
  children: ReactNode;
}

export function Menu({ trigger, children, align = 'end', side = 'bottom', className }: MenuProps) {
  return (
    <Base.Root modal={false}>
      <Base.Trigger render={trigger} />
      <MenuPopup align={align} side={side} className={className}>
        {children}
      </MenuPopup>
    </Base.Root>
  );
}

function MenuPopup({
  align,
  side,
  className,
  children,
}: Omit<MenuProps, 'trigger' | 'className'> & { className?: string | undefined }) {
  return (
    <Base.Portal>
      <Base.Positioner align={align} side={side} sideOffset={4} collisionPadding={8} className="z-50 outline-none">
        <Base.Popup className={cn(popupClass, 'max-h-(--available-height) min-w-48 overflow-y-auto', className)}>
          {children}
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  );
}

interface ItemProps {
  onChoose: () => void;
  icon?: LucideIcon;
  disabled?: boolean;
  danger?: boolean;
  /** In a menu of alternatives: whether this is the current one. */
  chosen?: boolean;
  /** At the right: a count, the current value. */
  hint?: ReactNode;
  keys?: string;
  children: ReactNode;
}

export function MenuItem({ onChoose, icon: Sign, disabled = false, danger, chosen, hint, keys, children }: ItemProps) {
  return (
    <Base.Item
      className={cn(itemClass, danger === true && 'text-bad')}
      onClick={onChoose}
      disabled={disabled}
      aria-current={chosen === true ? 'true' : undefined}>
      {chosen !== undefined && <span className="w-4 shrink-0">{chosen && <Check size={14} aria-hidden="true" />}</span>}
      {Sign !== undefined && <Sign size={15} strokeWidth={1.75} className="shrink-0" aria-hidden="true" />}
      <span className="flex min-w-0 flex-1 items-center gap-2">{children}</span>
      {hint !== undefined && <span className="text-xs text-muted-foreground">{hint}</span>}
      {keys !== undefined && <Kbd>{keys}</Kbd>}
    </Base.Item>
  );
}

/** An entry that opens a menu beside it. */
export function SubMenu({ label, icon: Sign, children }: { label: ReactNode; icon?: LucideIcon; children: ReactNode }) {
  return (
    <Base.SubmenuRoot>
      <Base.SubmenuTrigger className={cn(itemClass, 'data-popup-open:bg-hover')}>
        {Sign !== undefined && <Sign size={15} strokeWidth={1.75} className="shrink-0" aria-hidden="true" />}
        <span className="flex-1">{label}</span>
        <ChevronRight size={14} className="text-muted-foreground" aria-hidden="true" />
      </Base.SubmenuTrigger>
      <MenuPopup align="start" side="right">
        {children}
      </MenuPopup>
    </Base.SubmenuRoot>
  );
}

export function MenuSeparator() {
  return <Base.Separator className="-mx-1 my-1 h-px bg-line" />;
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <div className="px-2 pt-1.5 pb-0.5 text-xs text-muted-foreground">{children}</div>;
}
