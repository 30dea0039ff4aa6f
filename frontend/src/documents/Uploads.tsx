/** The progress of uploads into a stack, and uploads that failed. Finished ones disappear by themselves. */

import { RotateCcw, X } from 'lucide-react';
import { useEffect } from 'react';
import { Button } from '../components/ui/Button';
import { Progress } from '../components/ui/Progress';
import { formatPercent, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { dismiss, tryAgain, useUploads, type Upload } from './uploads';

export function Uploads() {
  const uploads = useUploads().filter((one) => one.isPlaced);
  useEffect(() => {
    const done = uploads.filter((one) => one.status === 'done').map((one) => one.id);
    if (done.length === 0) return undefined;
    const timer = setTimeout(() => dismiss(done), 800);
    return () => clearTimeout(timer);
  }, [uploads]);
  if (uploads.length === 0) return null;
  return (
    <section
      className="grid max-h-40 gap-1 overflow-y-auto border-b border-border px-6 py-2 max-sm:px-4"
      aria-label={t('documents.uploads.title')}
      tabIndex={0}>
      {uploads.length > 1 && (
        <p className="text-xs text-muted-foreground">
          {t('documents.uploads.progress', {
            done: uploads.filter((one) => one.status === 'done').length,
            count: uploads.length,
          })}
        </p>
      )}
      {uploads.map((one) => (
        <UploadRow key={one.id} upload={one} />
      ))}
    </section>
  );
}

export function UploadRow({ upload: { id, name, sent, status, error } }: { upload: Upload }) {
  return (
    <div className="grid min-h-7 grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3">
      <span className="truncate">{visibleText(name)}</span>
      {status === 'failed' ? (
        <span className="flex gap-1">
          <Button icon={RotateCcw} onClick={() => tryAgain(id)}>
            {t('common.tryAgain')}
          </Button>
          <Button kind="quiet" icon={X} label={t('common.dismiss')} onClick={() => dismiss([id])} />
        </span>
      ) : (
        <span className="flex w-40 items-center gap-2 text-xs text-muted-foreground">
          <Progress
            label={t('documents.uploads.uploading', { name: visibleText(name) })}
            value={status === 'waiting' ? 0 : sent}
            max={1}
          />
          <span className="shrink-0">{status === 'waiting' ? t('documents.uploads.queued') : formatPercent(sent)}</span>
        </span>
      )}
      {status === 'failed' && <p className="col-span-2 text-xs text-bad">{error}</p>}
    </div>
  );
}
