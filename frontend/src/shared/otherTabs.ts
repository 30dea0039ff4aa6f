/** What is changed in one tab is looked at again in the person's others. They are told that something changed, and not
 * what: what they may see, the service tells them. */

const AT_ONCE = 200; // milliseconds: many changes in a row are asked for once

const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('fieldmark');

export function notifyOtherTabs(): void {
  channel?.postMessage('changed');
}

export function onOtherTabChange(look: () => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  channel?.addEventListener('message', () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      look();
    }, AT_ONCE);
  });
}
