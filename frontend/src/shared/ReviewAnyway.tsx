/** Asks before extractions are marked as reviewed whose fields a person still has to look at. */

import { Dialog, DialogActions } from '../components/ui/Dialog';
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
      <ul className="grid max-h-[50vh] gap-1 overflow-auto wrap-anywhere">
        {open.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
      <DialogActions
        label={t('document.markAnyway')}
        disabled={isNothing}
        onClose={onClose}
        onConfirm={() => {
          onClose();
          onConfirm();
        }}
      />
    </Dialog>
  );
}
