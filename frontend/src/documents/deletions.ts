/** Deleting documents with an undo: a document disappears from the list at once, and is deleted some seconds later, or when
 * the page is closed. */

import { useSyncExternalStore } from 'react';
import { credentials, apiErrorOf } from '../api/client';
import { errorMessage } from '../components/ui/Notice';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { notifyOtherTabs } from '../shared/otherTabs';
import { basePath } from '../shared/serviceAddress';
import { toast } from '../components/ui/Toast';

const SECONDS = 7;

let pending: ReadonlySet<string> = new Set();
/** With the credentials of the deletion: the person may switch to another organisation meanwhile. */
const timers = new Map<string, { timer: ReturnType<typeof setTimeout>; headers: Record<string, string> }>();
const listeners = new Set<() => void>();

function publish(next: Set<string>) {
  pending = next;
  for (const listener of listeners) listener();
}

/** The ids of documents whose deletion can still be undone. */
export function usePendingDeletions(): ReadonlySet<string> {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pending,
  );
}

function keep(ids: readonly string[]) {
  for (const id of ids) {
    clearTimeout(timers.get(id)?.timer);
    timers.delete(id);
  }
  publish(new Set([...pending].filter((one) => !ids.includes(one))));
}

export function deleteDocuments(documents: readonly { id: string; filename: string }[], onDeleted: () => void): void {
  const ids = documents.map(({ id }) => id);
  publish(new Set([...pending, ...ids]));
  const headers = credentials();
  for (const { id, filename } of documents) {
    const timer = setTimeout(() => {
      timers.delete(id);
      send(id, headers)
        .then(onDeleted)
        .catch((error: unknown) => {
          const name = visibleText(filename);
          toast(t('documents.deleteFailed', { name, reason: errorMessage(error) }), { urgent: true });
          keep([id]);
        });
    }, SECONDS * 1000);
    timers.set(id, { timer, headers });
  }
  const undo = { label: t('common.undo'), act: () => keep(ids) };
  const text =
    documents.length === 1
      ? t('documents.deleted', { name: visibleText(documents[0]!.filename) })
      : t('documents.deletedMany', { count: documents.length });
  toast(text, { action: undo, seconds: SECONDS });
}

async function send(id: string, headers: Record<string, string>): Promise<void> {
  const response = await fetch(`${basePath}/api/documents/${encodeURIComponent(id)}`, {
    method: 'DELETE',
    headers,
    keepalive: true,
  });
  if (!response.ok) throw await apiErrorOf(response, headers.Authorization ?? null);
  notifyOtherTabs();
}

addEventListener('pagehide', () => {
  for (const [id, { headers }] of timers) void send(id, headers);
});
