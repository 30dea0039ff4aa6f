/** What is shown this once: a key, or the link of an invitation. */

import { Button } from '../shared/Button';
import { Notice } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import styles from './Settings.module.css';

export function OneTimeSecret({ words, secret, onDone }: { words: string; secret: string; onDone: () => void }) {
  return (
    <Notice kind="unsure">
      <p>{words} It is shown this once.</p>
      <div className={styles.line}>
        <input className={styles.secret} readOnly value={secret} aria-label="Shown this once" onFocus={(event) => event.target.select()} />
        <Button
          onClick={() =>
            navigator.clipboard.writeText(secret).then(
              () => toast('Copied.'),
              () => toast('The browser did not let it be copied: select it, and copy it by hand.', { urgent: true }),
            )
          }
        >
          Copy
        </Button>
        <Button onClick={onDone}>Done</Button>
      </div>
    </Notice>
  );
}
