/** An API key or invitation link that is shown only once. */

import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Notice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import styles from './Settings.module.css';

export function OneTimeSecret({
  hint,
  label,
  secret,
  onDone,
}: {
  hint: string;
  label: string;
  secret: string;
  onDone: () => void;
}) {
  return (
    <Notice kind="unsure">
      <p>{hint}</p>
      <div className={styles.line}>
        <input
          className={styles.secret}
          readOnly
          value={secret}
          aria-label={label}
          onFocus={(event) => event.target.select()}
        />
        <Button
          onClick={() =>
            navigator.clipboard.writeText(secret).then(
              () => toast(t('settings.keys.copied')),
              () => toast(t('settings.keys.copyFailed'), { urgent: true }),
            )
          }>
          {t('settings.keys.copy')}
        </Button>
        <Button onClick={onDone}>{t('common.done')}</Button>
      </div>
    </Notice>
  );
}
