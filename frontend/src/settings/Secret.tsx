/** What is shown this once: a key, or the link of an invitation. */

import { Button } from '../shared/Button';
import { Notice } from '../shared/Notice';
import { tell } from '../shared/Toasts';
import styles from './Settings.module.css';

export function Secret({ words, secret, onDone }: { words: string; secret: string; onDone: () => void }) {
  return (
    <Notice kind="unsure">
      <p>{words} It is shown this once.</p>
      <div className={styles.line}>
        <input className={styles.secret} readOnly value={secret} aria-label="Shown this once" onFocus={(event) => event.target.select()} />
        <Button
          onClick={() =>
            navigator.clipboard.writeText(secret).then(
              () => tell('Copied.'),
              () => tell('The browser did not let it be copied: select it, and copy it by hand.', { urgent: true }),
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
