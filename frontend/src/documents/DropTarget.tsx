/** Takes files that are dropped or pasted anywhere on the page. */

import { useEffect, useState } from 'react';
import styles from './DropTarget.module.css';
import { upload } from './uploads';

export function DropTarget() {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let leaving: ReturnType<typeof setTimeout> | undefined;
    const brings = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true;
    const stays = (event: DragEvent) => {
      if (!brings(event)) return;
      event.preventDefault();
      setOver(true);
      // It is told over and over while something is dragged here: when that ends, it has left.
      clearTimeout(leaving);
      leaving = setTimeout(() => setOver(false), 250);
    };
    document.addEventListener('dragenter', stays, { signal });
    document.addEventListener('dragover', stays, { signal });
    document.addEventListener(
      'drop',
      (event) => {
        if (!brings(event)) return;
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
  return over ? <div className={styles.over}>Drop to upload</div> : null;
}
