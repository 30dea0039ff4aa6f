import i18next from 'i18next';
import { afterEach, expect, test } from 'vitest';
import ERROR_CODES from '../../../docs/errors.md?raw';
import de from '../locales/de.json';
import en from '../locales/en.json';
import { readingErrorText } from './codeText';

afterEach(() => i18next.changeLanguage('en'));

test('why a file could not be read: as the service wrote it in English, else by its code', async () => {
  expect(readingErrorText('over_limit', 'Page 12 has 61,000 words.')).toBe('Page 12 has 61,000 words.');
  expect(readingErrorText('damaged', '')).toBe(en.readingErrors.damaged);
  i18next.addResourceBundle('de', 'translation', de);
  await i18next.changeLanguage('de');
  expect(readingErrorText('over_limit', 'Page 12 has 61,000 words.')).toBe(de.readingErrors.over_limit);
  expect(readingErrorText(null, 'a\u202eb')).toBe('a\\u202eb');
});

test('each reason why files of an archive were left out has a text', () => {
  const codes = [...ERROR_CODES.matchAll(/`(enclosed_\w+)`/g)]
    .map(([, code]) => code!)
    .filter((code) => code !== 'enclosed_apart');
  expect(codes.length).toBeGreaterThan(4);
  expect(codes.filter((code) => !Object.hasOwn(en.readingErrors, code))).toEqual([]);
});
