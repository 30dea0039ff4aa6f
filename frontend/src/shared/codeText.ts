/** Texts for the service's codes. A code that the page does not know is shown as the service wrote it. */

import en from '../locales/en.json';
import { visibleText } from './format';
import { language, t } from './i18n';

const TEXTS = {
  errors: (code: string) => t(`errors.${code as keyof typeof en.errors}`),
  readingErrors: (code: string) => t(`readingErrors.${code as keyof typeof en.readingErrors}`),
  runErrors: (code: string) => t(`runErrors.${code as keyof typeof en.runErrors}`),
  signInErrors: (code: string) => t(`signInErrors.${code as keyof typeof en.signInErrors}`),
  retries: (code: string, params: Record<string, unknown>) =>
    t(`retries.${code as keyof typeof en.retries}`, params as Record<'requested' | 'fallback', string>),
};

/** Return the text of a code in the person's language, else the service's `message`. */
export function codeText(
  group: keyof typeof TEXTS,
  code: string | null | undefined,
  message: string,
  params: Record<string, unknown> = {},
): string {
  return code != null && Object.hasOwn(en[group], code) ? TEXTS[group](code, params) : message;
}

/** Return why a document could not be read: in English as the service wrote it, with the page or the limit; else the text
 * of its code. */
export function readingErrorText(code: string | null | undefined, message: string): string {
  const byCode = codeText('readingErrors', code, visibleText(message));
  return language() === 'en' && code !== 'password' && message !== '' ? visibleText(message) : byCode;
}
