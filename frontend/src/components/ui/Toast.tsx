/** Short messages about what just happened, with an optional action. `toast` can be called from anywhere. */

import { Toast } from '@base-ui/react/toast';
import { X } from 'lucide-react';
import { t } from '../../shared/i18n';

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

/** The toasts, above bars at the foot of a page and beside the panels at its edges. */
export function Toasts() {
  return (
    <Toast.Provider toastManager={manager} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className="fixed bottom-16 left-1/2 z-60 grid w-[min(26rem,calc(100vw-2rem))] -translate-x-1/2 gap-2 max-sm:bottom-24">
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function ToastList() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      className="rounded-lg bg-foreground text-background shadow-lg data-limited:hidden">
      <Toast.Content className="flex items-center gap-2 py-1.5 pr-1.5 pl-3">
        <Toast.Description className="min-w-0 flex-1 wrap-anywhere" />
        {toast.actionProps !== undefined && (
          <Toast.Action className="min-h-7 shrink-0 rounded-md px-2 font-semibold underline underline-offset-2" />
        )}
        <Toast.Close
          className="flex size-7 shrink-0 items-center justify-center rounded-md"
          aria-label={t('common.close')}>
          <X size={14} aria-hidden="true" />
        </Toast.Close>
      </Toast.Content>
    </Toast.Root>
  ));
}
