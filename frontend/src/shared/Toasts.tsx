/** Short messages about what just happened, with an optional action. `toast` can be called from anywhere. */

import { Toast } from '@base-ui/react/toast';
import { t } from './i18n';
import styles from './Toasts.module.css';

const manager = Toast.createToastManager();

interface ToastOptions {
  action?: { label: string; act: () => void };
  seconds?: number;
  urgent?: boolean;
}

/** The last toast without an action. */
let last = { message: '', id: '' };

/** Show a message for some seconds. A repeated message is shown once. Return a function that closes it. */
export function toast(message: string, { action, seconds = 6, urgent = false }: ToastOptions = {}): () => void {
  if (message === last.message) manager.close(last.id);
  const id = manager.add({
    description: message,
    timeout: seconds * 1000,
    priority: urgent ? 'high' : 'low',
    ...(action && {
      actionProps: {
        children: action.label,
        onClick: () => {
          manager.close(id);
          action.act();
        },
      },
    }),
  });
  last = action === undefined ? { message, id } : { message: '', id: '' };
  return () => manager.close(id);
}

export function Toasts() {
  return (
    <Toast.Provider toastManager={manager} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className={styles.view}>
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function ToastList() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className={styles.toast}>
      <Toast.Content className={styles.content}>
        <Toast.Description className={styles.text} />
        {toast.actionProps !== undefined && <Toast.Action className={styles.action} />}
        <Toast.Close className={styles.action} aria-label={t('common.close')}>
          ×
        </Toast.Close>
      </Toast.Content>
    </Toast.Root>
  ));
}
