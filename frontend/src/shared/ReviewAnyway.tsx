/** Asks before extractions are marked as reviewed whose fields a person still has to look at. */

import { Button } from './Button';
import styles from './Confirm.module.css';
import { Dialog } from './Dialog';
import { t } from './i18n';

interface Props {
  question: string;
  /** Which fields, and why. */
  open: readonly string[];
  /** Nothing is left to mark. */
  isNothing?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

export function ReviewAnyway({ question, open, isNothing = false, onConfirm, onClose }: Props) {
  return (
    <Dialog title={question} open onClose={onClose}>
      <ul className={styles.list}>
        {open.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
      <div className={styles.buttons}>
        <Button onClick={onClose}>{t('common.cancel')}</Button>
        <Button
          kind="main"
          disabled={isNothing}
          onClick={() => {
            onClose();
            onConfirm();
          }}>
          {t('document.markAnyway')}
        </Button>
      </div>
    </Dialog>
  );
}
