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
  /** A click outside does not close it. */
  keepsOpen?: boolean;
  children: ReactNode;
}

export function Dialog({ title, open, onClose, isWide = false, keepsOpen = false, children }: Props) {
  return (
    <Base.Root open={open} disablePointerDismissal={keepsOpen} onOpenChange={(next) => !next && onClose()}>
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
