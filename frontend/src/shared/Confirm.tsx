/** A button for what cannot be undone: it asks in a dialog first. */

import { useState } from 'react';
import { Button } from './Button';
import styles from './Confirm.module.css';
import { Dialog } from './Dialog';
import { t } from './i18n';

interface Props {
  /** The action, on the button and in the dialog. */
  label: string;
  question: string;
  onConfirm: () => void;
}

export function Confirm({ label, question, onConfirm }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button kind="quiet" danger onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog title={question} open={open} onClose={() => setOpen(false)}>
        <div className={styles.buttons}>
          <Button onClick={() => setOpen(false)}>{t('common.cancel')}</Button>
          <Button
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
