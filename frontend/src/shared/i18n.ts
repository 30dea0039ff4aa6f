/** The texts of the page. `src/locales` has one catalogue per language; English is complete and bundled, the others are
 * loaded when they are needed. */

import i18next from 'i18next';
import { useSyncExternalStore } from 'react';
import en from '../locales/en.json';
import { persisted } from './persisted';

declare module 'i18next' {
  interface CustomTypeOptions {
    resources: { translation: typeof en };
  }
}

export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

/** British dates are unambiguous in English: 20 Mar 2023. */
const LOCALES: Record<Language, string> = { en: 'en-GB', de: 'de-DE' };

void i18next.init({
  lng: 'en',
  resources: { en: { translation: en } },
  initAsync: false,
  interpolation: { escapeValue: false },
});

export const t = i18next.t;

/** The language chosen in the account menu; null: the browser's. */
export const languageChoice = persisted<Language | null>('fieldmark.language', (stored) =>
  isLanguage(stored) ? stored : null,
);

export function language(): Language {
  return i18next.language as Language;
}

/** The locale of numbers and dates. */
export function locale(): string {
  return LOCALES[language()];
}

export function useLanguage(): Language {
  return useSyncExternalStore((listener) => {
    i18next.on('languageChanged', listener);
    return () => i18next.off('languageChanged', listener);
  }, language);
}

/** Switch to the person's language, and again whenever they choose another one. */
export async function followLanguage(): Promise<void> {
  await load();
  languageChoice.subscribe(() => void load());
}

async function load(): Promise<void> {
  const wanted = languageChoice.get() ?? browserLanguage();
  if (wanted === 'de' && !i18next.hasResourceBundle('de', 'translation')) {
    i18next.addResourceBundle('de', 'translation', (await import('../locales/de.json')).default);
  }
  await i18next.changeLanguage(wanted);
  document.documentElement.lang = wanted;
}

function browserLanguage(): Language {
  return navigator.languages.map((tag) => tag.slice(0, 2)).find(isLanguage) ?? 'en';
}

function isLanguage(value: unknown): value is Language {
  return typeof value === 'string' && Object.hasOwn(LANGUAGES, value);
}
