import i18next from 'i18next';
import { afterEach, expect, test } from 'vitest';
import de from '../locales/de.json';
import { refusalTexts } from './refusalText';

afterEach(() => i18next.changeLanguage('en'));

const DETAIL = 'total: Input should be a valid number.';
const refused = (...errors: { path: string; code: string; params?: Record<string, unknown> }[]) => ({
  detail: DETAIL,
  errors: errors.map((one) => ({ message: 'Input should be right', params: null, ...one })),
});

test.each([
  [{ path: 'total', code: 'float_type' }, 'Total muss eine Zahl sein.'],
  [{ path: 'items[0].name', code: 'missing' }, 'Items › 1 › Name ist erforderlich.'],
  [{ path: 'confidence', code: 'less_than_equal', params: { le: 1 } }, 'Confidence darf höchstens 1 sein.'],
  [{ path: 'total', code: 'type', params: { expected: 'string' } }, 'Total muss ein Text sein.'],
  [{ path: '', code: 'schema_violation' }, de.errors.schema_violation],
  [{ path: 'total', code: 'unknown_code' }, 'Total ist ungültig.'],
] as const)('%j in German', async (error, text) => {
  i18next.addResourceBundle('de', 'translation', de);
  await i18next.changeLanguage('de');
  expect(refusalTexts(refused(error), '')).toEqual([text]);
});

test('an error without a text is shown as the service wrote it, in English only', async () => {
  const unknown = refused({ path: '', code: 'unknown_code' });
  expect(refusalTexts(unknown, '')).toEqual([DETAIL]);
  i18next.addResourceBundle('de', 'translation', de);
  await i18next.changeLanguage('de');
  expect(refusalTexts(unknown, '')).toEqual([]);
  expect(refusalTexts(refused({ path: '', code: 'schema_violation' }), de.errors.schema_violation)).toEqual([]);
});
