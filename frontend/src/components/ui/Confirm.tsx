/** A button for what cannot be undone: it asks in a dialog first. */

import type { LucideIcon } from 'lucide-react';
import { useState } from 'react';
import { t } from '../../shared/i18n';
import { Button } from './Button';
import { Dialog } from './Dialog';

interface Props {
  /** The action, on the button and in the dialog. */
  label: string;
  question: string;
  icon?: LucideIcon;
  onConfirm: () => void;
}

export function Confirm({ label, question, icon, onConfirm }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button kind="quiet" danger icon={icon} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog title={question} open={open} onClose={() => setOpen(false)}>
        <div className="flex justify-end gap-2 pt-2">
          <Button size="md" onClick={() => setOpen(false)}>
            {t('common.cancel')}
          </Button>
          <Button
            kind="main"
            size="md"
            danger
            onClick={() => {
              setOpen(false);
              onConfirm();
            }}>
            {label}
          </Button>
        </div>
      </Dialog>
    </>
  );
}
