/** Uploads files that are dropped or pasted anywhere on the page. */

import { useEffect, useState } from 'react';
import { t } from '../shared/i18n';
import styles from './DropTarget.module.css';
import { upload } from './uploads';

export function DropTarget() {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let leaving: ReturnType<typeof setTimeout> | undefined;
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true;
    const keepOpen = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
      // Browsers repeat dragover while something is dragged over the page: when the events stop, it has left.
      clearTimeout(leaving);
      leaving = setTimeout(() => setOver(false), 250);
    };
    document.addEventListener('dragenter', keepOpen, { signal });
    document.addEventListener('dragover', keepOpen, { signal });
    document.addEventListener(
      'drop',
      (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        clearTimeout(leaving);
        setOver(false);
        upload(event.dataTransfer?.files ?? []);
      },
      { signal },
    );
    document.addEventListener('paste', (event) => upload(event.clipboardData?.files ?? []), { signal });
    return () => {
      clearTimeout(leaving);
      controller.abort();
    };
  }, []);
  return over ? <div className={styles.over}>{t('documents.dropToUpload')}</div> : null;
}
