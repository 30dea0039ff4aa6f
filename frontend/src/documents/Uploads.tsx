/** The progress of uploads. Finished ones disappear by themselves. */

import { useEffect } from 'react';
import { Button } from '../components/ui/Button';
import { formatPercent, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { dismiss, tryAgain, useUploads } from './uploads';
import styles from './Uploads.module.css';

export function Uploads() {
  const uploads = useUploads();
  useEffect(() => {
    const done = uploads.filter((one) => one.status === 'done').map((one) => one.id);
    if (done.length === 0) return undefined;
    const timer = setTimeout(() => dismiss(done), 800);
    return () => clearTimeout(timer);
  }, [uploads]);
  if (uploads.length === 0) return null;
  return (
    <section className={styles.list} aria-label={t('documents.uploads.title')} tabIndex={0}>
      {uploads.length > 1 && (
        <p className="muted">
          {t('documents.uploads.progress', {
            done: uploads.filter((one) => one.status === 'done').length,
            count: uploads.length,
          })}
        </p>
      )}
      {uploads.map(({ id, name, sent, status, error }) => (
        <div key={id} className={styles.one}>
          <span className="truncate">{visibleText(name)}</span>
          {status === 'failed' ? (
            <Button onClick={() => tryAgain(id)}>{t('common.tryAgain')}</Button>
          ) : (
            <progress
              aria-label={t('documents.uploads.uploading', { name: visibleText(name) })}
              max={1}
              value={status === 'waiting' ? 0 : sent}
            />
          )}
          {status === 'failed' ? (
            <Button kind="quiet" label={t('common.dismiss')} onClick={() => dismiss([id])}>
              <Icon name="cross" />
            </Button>
          ) : (
            <span className="muted">
              {status === 'waiting'
                ? t('documents.uploads.queued')
                : status === 'done'
                  ? t('common.done')
                  : formatPercent(sent)}
            </span>
          )}
          {status === 'failed' && <p className={styles.error}>{error}</p>}
        </div>
      ))}
    </section>
  );
}
