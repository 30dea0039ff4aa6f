/** Uploads files that are dropped or pasted anywhere on the page, or chosen. */

import { Upload } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { upload } from './uploads';

const ADD = { id: 'global.addFiles', keys: 'u' } as const;

/** The id of the file input, for `chooseFiles`. */
const INPUT = 'files-to-add';

/** Let the person choose files. */
export function chooseFiles(): void {
  document.getElementById(INPUT)?.click();
}

export function DropTarget() {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useShortcut(ADD, () => input.current?.click());
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
  return (
    <>
      <input
        ref={input}
        id={INPUT}
        type="file"
        multiple
        hidden
        aria-label={t('adding.files')}
        onChange={({ target }) => {
          upload(target.files ?? []);
          target.value = '';
        }}
      />
      {over && (
        <div className="pointer-events-none fixed inset-2 z-60 grid place-items-center rounded-xl border-2 border-dashed border-primary bg-accent/90 text-xl font-semibold text-link">
          <span className="flex items-center gap-3">
            <Upload size={22} aria-hidden="true" /> {t('documents.dropToUpload')}
          </span>
        </div>
      )}
    </>
  );
}
