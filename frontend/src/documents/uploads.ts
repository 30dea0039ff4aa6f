/** The queue of uploads: a few at a time, with progress. */

import { useSyncExternalStore } from 'react';
import { startExtraction, startProposal } from '../api/runs';
import { credentials, apiErrorOf } from '../api/client';
import type { Document } from '../api/types';
import { identityKey, session } from '../session/session';
import { t } from '../shared/i18n';
import { errorMessage } from '../components/ui/Notice';
import { notifyOtherTabs } from '../shared/otherTabs';

export interface Upload {
  id: number;
  name: string;
  size: number;
  /** Fraction of bytes sent, 0..1. */
  sent: number;
  status: 'waiting' | 'sending' | 'done' | 'failed';
  error?: string;
  document?: Document;
  /** `identityKey` of the person who uploads it. */
  by: string;
}

/** A file with the credentials it was added with: it is uploaded to that organisation, also after a switch. */
interface Dropped {
  file: File;
  headers: Record<string, string>;
  /** The stack that it is added to. */
  stackId: string | undefined;
  /** Set once uploaded. From then on only the suggestion is retried. */
  document?: Document;
  /** The model or prompt, and idempotency key, of the run that starts after the upload. */
  asked?: { choice: string; key: string };
}

const AT_ONCE = 3;

let uploads: readonly Upload[] = [];
let nextId = 1;
const files = new Map<number, Dropped>();
const listeners = new Set<() => void>();
const doneListeners = new Set<(document: Document) => void>();

function publish(next: readonly Upload[]) {
  uploads = next;
  for (const listener of listeners) listener();
}

function change(id: number, to: Partial<Upload>) {
  publish(uploads.map((one) => (one.id === id ? { ...one, ...to } : one)));
}

/** The uploads of the current account and organisation. */
export function useUploads(): readonly Upload[] {
  const all = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => uploads,
  );
  const by = identityKey(session.get());
  return all.filter((one) => one.by === by);
}

/** Call `listener` with each uploaded document. Return a function that stops it. */
export function onUploaded(listener: (document: Document) => void): () => void {
  doneListeners.add(listener);
  return () => void doneListeners.delete(listener);
}

/** Options of the next uploads. `autoCreate` null: as the organisation's setting. With `promptId` each upload is extracted
 * with this prompt, and no schema is suggested. */
export const uploadOptions: { autoCreate: boolean | null; model: string; promptId: string } = {
  autoCreate: null,
  model: '',
  promptId: '',
};

/** `stackId`: add the documents to this stack. Its agent reads them, so no schema is suggested. */
export function upload(chosen: Iterable<File>, stackId?: string): void {
  const headers = credentials();
  const by = identityKey(session.get());
  const added = [...chosen].map((file): Upload => {
    const id = nextId++;
    files.set(id, { file, headers, stackId });
    return { id, name: file.name, size: file.size, sent: 0, status: 'waiting', by };
  });
  publish([...uploads, ...added]);
  begin();
}

export function tryAgain(id: number): void {
  change(id, { status: 'waiting', sent: 0, error: '' });
  begin();
}

/** Remove uploads from the list. */
export function dismiss(ids: readonly number[]): void {
  for (const id of ids) files.delete(id);
  publish(uploads.filter((one) => !ids.includes(one.id)));
}

function begin() {
  const under_way = uploads.filter((one) => one.status === 'sending').length;
  const next = uploads.filter((one) => one.status === 'waiting').slice(0, Math.max(0, AT_ONCE - under_way));
  for (const one of next) {
    change(one.id, { status: 'sending' });
    void send(one).finally(begin);
  }
}

async function send({ id, by }: Upload) {
  const found = files.get(id);
  if (found === undefined) return;
  try {
    await session.refresh();
    const headers = by === identityKey(session.get()) ? credentials() : found.headers; // a fresh token, where there is one
    const { stackId } = found;
    const { model, promptId, ...options } =
      stackId === undefined ? uploadOptions : { autoCreate: false, model: '', promptId: '' };
    const autoCreate = promptId === '' ? options.autoCreate : false;
    // With a chosen model, the suggestion is a separate run. It waits until the document is read.
    const separate = autoCreate === true && (model !== '' || found.document !== undefined);
    if (found.document === undefined) {
      found.document = await put(
        found.file,
        headers,
        { auto_create: separate ? false : autoCreate, stack_id: stackId },
        (sent) => change(id, { sent }),
      );
    }
    change(id, { sent: 1, document: found.document });
    if (separate || promptId !== '') {
      // A retry starts the same run.
      const choice = promptId === '' ? model : promptId;
      if (found.asked?.choice !== choice) found.asked = { choice, key: crypto.randomUUID() };
      if (promptId !== '')
        await startExtraction({ document_id: found.document.id, prompt_id: promptId }, found.asked.key);
      else await startProposal(found.document.id, found.asked.key, model === '' ? undefined : model);
    }
    files.delete(id);
    change(id, { status: 'done', sent: 1 });
  } catch (error) {
    const reason = errorMessage(error);
    change(id, {
      status: 'failed',
      error: found.document === undefined ? reason : t('documents.uploads.notStarted', { reason }),
    });
  }
  if (found.document === undefined) return;
  for (const listener of doneListeners) listener(found.document);
  notifyOtherTabs();
}

/** XMLHttpRequest, since fetch reports no upload progress. */
function put(
  file: File,
  headers: Record<string, string>,
  options: { auto_create: boolean | null; stack_id: string | undefined },
  progress: (sent: number) => void,
): Promise<Document> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const given = Object.entries(options).filter(([, value]) => value != null);
    request.open('POST', `/api/documents?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      if (request.status === 201) resolve(JSON.parse(request.responseText) as Document);
      else {
        const response = new Response(request.responseText || null, { status: request.status });
        void apiErrorOf(response, headers.Authorization ?? null).then(reject);
      }
    };
    request.onerror = () => reject(new TypeError('network error'));
    const form = new FormData();
    form.append('file', file);
    request.send(form);
  });
}
