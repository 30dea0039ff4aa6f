/** A modal dialog over the page. Focus returns to where it was. */

import { Dialog as Base } from '@base-ui/react/dialog';
import { type LucideIcon, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { t } from '../../shared/i18n';
import { Button } from './Button';
import { cn } from './cn';
import { backdropClass } from './popup';

interface Props {
  title: string;
  open: boolean;
  onClose: () => void;
  isWide?: boolean;
  children: ReactNode;
}

export function Dialog({ title, open, onClose, isWide = false, children }: Props) {
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={backdropClass} />
        <Base.Popup
          className={cn(
            'fixed top-1/2 left-1/2 z-50 flex max-h-[calc(100dvh-2rem)] w-[calc(100vw-2rem)] -translate-1/2 flex-col gap-3',
            'overflow-y-auto rounded-xl border border-border bg-popover p-5 text-foreground shadow-lg outline-none',
            isWide ? 'max-w-4xl' : 'max-w-md',
          )}>
          <DialogHead title={title} />
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

interface ActionsProps {
  /** The action. */
  label: string;
  icon?: LucideIcon;
  danger?: boolean;
  disabled?: boolean;
  /** Absent: the action submits the form around it. */
  onConfirm?: () => void;
  onClose: () => void;
}

/** The last line of a dialog: cancel, and the action. */
export function DialogActions({ label, icon, danger = false, disabled = false, onConfirm, onClose }: ActionsProps) {
  const type = onConfirm === undefined ? 'submit' : 'button';
  return (
    <div className="flex flex-wrap justify-end gap-2">
      <Button size="md" onClick={onClose}>
        {t('common.cancel')}
      </Button>
      <Button kind="main" size="md" icon={icon} danger={danger} type={type} disabled={disabled} onClick={onConfirm}>
        {label}
      </Button>
    </div>
  );
}

function DialogHead({ title }: { title: string }) {
  return (
    <div className="flex items-center justify-between gap-4">
      <Base.Title className="min-w-0 text-lg font-semibold wrap-anywhere">{title}</Base.Title>
      <Base.Close render={<Button kind="quiet" icon={X} label={t('common.close')} />} />
    </div>
  );
}

interface SheetProps {
  title: string;
  open: boolean;
  onClose: () => void;
  side?: 'right' | 'left' | 'bottom';
  /** Its own head, instead of the title. The title is still its accessible name. */
  head?: ReactNode;
  className?: string;
  children: ReactNode;
}

const SIDES = {
  right:
    'inset-y-2 right-2 w-[min(40rem,calc(100vw-1rem))] data-starting-style:translate-x-8 data-ending-style:translate-x-8',
  left: 'inset-y-2 left-2 w-[min(20rem,calc(100vw-3rem))] data-starting-style:-translate-x-8 data-ending-style:-translate-x-8',
  bottom:
    'inset-x-0 bottom-0 max-h-[90dvh] rounded-b-none data-starting-style:translate-y-8 data-ending-style:translate-y-8',
};

/** A panel at an edge of the window, over the page. */
export function Sheet({ title, open, onClose, side = 'right', head, className, children }: SheetProps) {
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={backdropClass} />
        <Base.Popup
          aria-label={head === undefined ? undefined : title}
          className={cn(
            'fixed z-50 flex flex-col overflow-hidden rounded-xl border border-border bg-popover text-foreground shadow-lg',
            'outline-none transition duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0',
            SIDES[side],
            className,
          )}>
          {head ?? (
            <div className="border-b border-border px-5 py-2.5">
              <DialogHead title={title} />
            </div>
          )}
          <div className="min-h-0 flex-1 overflow-y-auto">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
