/** The files on their way: how far each is, what failed and why. What is done goes by itself. */

import { useEffect } from 'react';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
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
    <section className={styles.list} aria-label="Uploads" tabIndex={0}>
      {uploads.length > 1 && <p className="muted">{uploads.filter((one) => one.status === 'done').length} of {uploads.length} uploaded</p>}
      {uploads.map(({ id, name, sent, status, error }) => (
        <div key={id} className={styles.one}>
          <span className="truncate">{visibleText(name)}</span>
          {status === 'failed' ? (
            <Button onClick={() => tryAgain(id)}>Try again</Button>
          ) : (
            <progress aria-label={`Upload of ${visibleText(name)}`} max={1} value={status === 'waiting' ? 0 : sent} />
          )}
          {status === 'failed' ? (
            <Button kind="quiet" label="Dismiss" onClick={() => dismiss([id])}>
              <Icon name="cross" />
            </Button>
          ) : (
            <span className="muted">{status === 'waiting' ? 'Queued' : status === 'done' ? 'Done' : `${Math.round(sent * 100)}%`}</span>
          )}
          {status === 'failed' && <p className={styles.error}>{error}</p>}
        </div>
      ))}
    </section>
  );
}
