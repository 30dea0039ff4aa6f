/** Notify the browser's other tabs that something changed. They load it from the service again. */

const DEBOUNCE_MS = 200;

const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('fieldmark');

export function notifyOtherTabs(): void {
  channel?.postMessage('changed');
}

export function onOtherTabChange(onChange: () => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  channel?.addEventListener('message', () => {
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      onChange();
    }, DEBOUNCE_MS);
  });
}
