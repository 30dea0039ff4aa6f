/** Verifies that a request to a webhook is from the service, by the Standard Webhooks rules. */

import type { ChangeType } from './generated/types.gen.js';

const TOLERANCE_SECONDS = 300;

/** A change as a webhook gets it. */
export interface WebhookEvent {
  id: string;
  type: ChangeType;
  timestamp: string;
  data: Record<string, unknown>;
}

/** A request to a webhook is not from the service, or too old. */
export class InvalidSignature extends Error {
  override readonly name = 'InvalidSignature';
}

/** Return the event of a request. `body` as it arrived, `secret` as it was shown (`whsec_…`). Throw InvalidSignature. */
export async function verifyWebhook(
  secret: string,
  body: string | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
): Promise<WebhookEvent> {
  const given = headers instanceof Headers ? headers : new Headers(headers as Record<string, string>);
  const [id, sentAt] = [given.get('webhook-id'), given.get('webhook-timestamp')];
  const signatures = given.get('webhook-signature')?.split(' ') ?? [];
  if (id === null || sentAt === null) throw new InvalidSignature('The request has no signature of a webhook.');
  if (!(Math.abs(Date.now() / 1000 - Number(sentAt)) <= TOLERANCE_SECONDS))
    throw new InvalidSignature('The request is too old, or the clock is wrong.');
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body);
  const signed = new TextEncoder().encode(`${id}.${sentAt}.${text}`);
  const bytes = bytesOf(secret.replace(/^whsec_/, ''));
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  for (const signature of signatures) {
    const [version, code = ''] = signature.split(',');
    if (version === 'v1' && (await crypto.subtle.verify('HMAC', key, bytesOf(code), signed))) return JSON.parse(text);
  }
  throw new InvalidSignature('The signature is wrong: another secret, or a changed body.');
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
