/** Short words about what was just done, with one thing to do about it. `tell` may be called from anywhere. */

import { Toast } from '@base-ui/react/toast';
import styles from './Toasts.module.css';

const manager = Toast.createToastManager();

interface Telling {
  /** What may be done about it: the button's words, and what it does. */
  action?: { words: string; act: () => void };
  seconds?: number;
  urgent?: boolean;
}

/** Shows a sentence for a while. Returns what takes it away again. */
export function toast(sentence: string, { action, seconds = 6, urgent = false }: Telling = {}): () => void {
  const id = manager.add({
    description: sentence,
    timeout: seconds * 1000,
    priority: urgent ? 'high' : 'low',
    ...(action && {
      actionProps: {
        children: action.words,
        onClick: () => {
          manager.close(id);
          action.act();
        },
      },
    }),
  });
  return () => manager.close(id);
}

export function Toasts() {
  return (
    <Toast.Provider toastManager={manager} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className={styles.view}>
          <Shown />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function Shown() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className={styles.toast}>
      <Toast.Content className={styles.content}>
        <Toast.Description className={styles.text} />
        {toast.actionProps !== undefined && <Toast.Action className={styles.action} />}
        <Toast.Close className={styles.action} aria-label="Close">
          ×
        </Toast.Close>
      </Toast.Content>
    </Toast.Root>
  ));
}
