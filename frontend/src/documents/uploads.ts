/** The queue of uploads: a few at a time, with progress. */

import { useSyncExternalStore } from 'react';
import { credentials, apiErrorOf } from '../api/client';
import type { Document } from '../api/types';
import { identityKey, session } from '../session/session';
import { errorMessage } from '../components/ui/Notice';
import { notifyOtherTabs } from '../shared/otherTabs';
import { basePath } from '../shared/serviceAddress';

export interface Upload {
  id: number;
  name: string;
  size: number;
  /** Fraction of bytes sent, 0..1. */
  sent: number;
  status: 'waiting' | 'sending' | 'done' | 'failed';
  error?: string;
  document?: Document;
  /** The stack that it is added to. null: the person is asked where it belongs. */
  stackId: string | null;
  /** Whether the person has said where it belongs. */
  isPlaced: boolean;
  /** `identityKey` of the person who uploads it. */
  by: string;
}

/** A file with the credentials it was added with: it is uploaded to that organisation, also after a switch. */
interface Dropped {
  file: File;
  headers: Record<string, string>;
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

/** `stackId`: add the documents to this stack. Without one, `AddFiles` asks where they belong. */
export function upload(chosen: Iterable<File>, stackId: string | null = null): void {
  const headers = credentials();
  const by = identityKey(session.get());
  const added = [...chosen].map((file): Upload => {
    const id = nextId++;
    files.set(id, { file, headers });
    return {
      id,
      name: file.name,
      size: file.size,
      sent: 0,
      status: 'waiting',
      stackId,
      isPlaced: stackId !== null,
      by,
    };
  });
  publish([...uploads, ...added]);
  begin();
}

/** The person has said where these belong: they stay until they are uploaded. */
export function place(ids: readonly number[]): void {
  publish(uploads.map((one) => (ids.includes(one.id) ? { ...one, isPlaced: true } : one)));
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

async function send({ id, by, stackId }: Upload) {
  const found = files.get(id);
  if (found === undefined) return;
  try {
    await session.refresh();
    const headers = by === identityKey(session.get()) ? credentials() : found.headers; // a fresh token, where there is one
    const document = await put(found.file, headers, stackId, (sent) => change(id, { sent }));
    files.delete(id);
    change(id, { status: 'done', sent: 1, document });
    for (const listener of doneListeners) listener(document);
    notifyOtherTabs();
  } catch (error) {
    change(id, { status: 'failed', error: errorMessage(error) });
  }
}

/** XMLHttpRequest, since fetch reports no upload progress. */
function put(
  file: File,
  headers: Record<string, string>,
  stackId: string | null,
  progress: (sent: number) => void,
): Promise<Document> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    // No schema is suggested for each, and no rule applies before the person has said where they belong.
    const options = new URLSearchParams({ auto_create: 'false', ...(stackId !== null && { stack_id: stackId }) });
    request.open('POST', `${basePath}/api/documents?${options}`);
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
