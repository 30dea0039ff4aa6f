import { expect, it } from 'vitest';
import { t } from '../shared/i18n';
import { patternText } from './patternText';

const digits = (count: number, number = String(count)) => t('schemas.characters.digits', { count, number }).trim();
const letters = (count: number) => t('schemas.characters.letters', { count, number: String(count) });

it.each([
  ['^PO-[0-9]{4}$', `“PO-”, ${digits(4)}`],
  ['^[A-Z]{2} ?[0-9 ]+$', `${letters(2)}, ${digits(2, '')}`],
  ['^\\d{4}\\.\\d$', `${digits(4)}, “.”, ${digits(1)}`],
  ['^[0-9]{5,8}$', digits(8, '5–8')],
  // More than a row of characters.
  ['^RE', '^RE'],
  ['^(A|B)$', '^(A|B)$'],
  ['^[^a]+$', '^[^a]+$'],
  ['^.{3}$', '^.{3}$'],
  ['^[A-Z]?$', '^[A-Z]?$'],
])('%s in words is %s', (pattern, words) => expect(patternText(pattern)).toBe(words));
