/** What cannot be undone asks in a dialog first: after a button, or by `ConfirmDialog` after anything else. */

import type { LucideIcon } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Button } from './Button';
import { Dialog, DialogActions } from './Dialog';

interface Props {
  /** The action, on the button and in the dialog. */
  label: string;
  question: string;
  icon?: LucideIcon;
  onConfirm: () => void;
}

export function Confirm({ icon, ...asked }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button kind="quiet" danger icon={icon} onClick={() => setOpen(true)}>
        {asked.label}
      </Button>
      <ConfirmDialog {...asked} open={open} onClose={() => setOpen(false)} />
    </>
  );
}

interface DialogProps extends Omit<Props, 'icon'> {
  open: boolean;
  onClose: () => void;
  children?: ReactNode;
}

export function ConfirmDialog({ label, question, open, onConfirm, onClose, children }: DialogProps) {
  return (
    <Dialog title={question} open={open} onClose={onClose}>
      {children}
      <DialogActions
        danger
        label={label}
        onClose={onClose}
        onConfirm={() => {
          onClose();
          onConfirm();
        }}
      />
    </Dialog>
  );
}
