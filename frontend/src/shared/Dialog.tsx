/** A modal dialog over the page. */

import { Dialog as Base } from '@base-ui/react/dialog';
import type { ReactNode } from 'react';
import { Button } from './Button';
import styles from './Dialog.module.css';
import { t } from './i18n';
import { Icon } from './Icon';

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
        <Base.Backdrop className={styles.behind} />
        <Base.Popup className={`${styles.popup} ${isWide ? styles.wide : ''}`}>
          <div className={styles.head}>
            <Base.Title className={styles.title}>{title}</Base.Title>
            <Base.Close
              render={
                <Button kind="quiet" label={t('common.close')}>
                  <Icon name="cross" />
                </Button>
              }
            />
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
