/** Why a tool refused edited arguments, in the person's language: from the codes and parameters of its errors. */

import type { Problem } from '../api/types';
import { pathLabel } from '../fields/labels';
import { violationText } from '../fields/violationText';
import { codeText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { language, t } from '../shared/i18n';

type RequestError = NonNullable<Problem['errors']>[number];
type Params = Record<string, unknown>;

/** The keyword of JSON Schema that says the same as a code of the service's check of arguments, and its parameter. */
const KEYWORDS: Readonly<Record<string, readonly [keyword: string, expected?: string]>> = {
  missing: ['required'],
  extra_forbidden: ['additionalProperties'],
  greater_than: ['exclusiveMinimum', 'gt'],
  greater_than_equal: ['minimum', 'ge'],
  less_than: ['exclusiveMaximum', 'lt'],
  less_than_equal: ['maximum', 'le'],
  string_too_short: ['minLength', 'min_length'],
  string_too_long: ['maxLength', 'max_length'],
  too_short: ['minItems', 'min_length'],
  too_long: ['maxItems', 'max_length'],
  literal_error: ['enum', 'expected'],
  enum: ['enum', 'expected'],
};
const TYPES: Readonly<Record<string, string>> = {
  string: 'string',
  int: 'integer',
  float: 'number',
  decimal: 'number',
  bool: 'boolean',
  list: 'array',
  dict: 'object',
  model: 'object',
};

/** Return a sentence for each error, without those that say no more than `known`. */
export function refusalTexts({ errors, detail }: Pick<Problem, 'errors' | 'detail'>, known: string): string[] {
  const texts = (errors ?? []).map(errorText).filter((text) => text !== '' && text !== known);
  if (texts.length === 0 && language() === 'en') return [visibleText(detail)];
  return [...new Set(texts)];
}

function errorText({ path, code, message, params }: RequestError): string {
  const type = /^(\w+?)_(?:type|parsing|from_float)$/.exec(code)?.[1] ?? '';
  const [keyword, name] = Object.hasOwn(TYPES, type) ? ['type'] : (KEYWORDS[code] ?? [code]);
  const expected =
    keyword === 'type' && Object.hasOwn(TYPES, type)
      ? { expected: TYPES[type] }
      : name === undefined
        ? {}
        : { expected: (params as Params | undefined)?.[name] };
  const unknown = '';
  const violation = violationText({
    path,
    code: keyword,
    message: unknown,
    about: [],
    params: { ...params, ...expected },
  });
  if (violation !== unknown) return violation;
  const text = codeText('errors', code, unknown);
  if (text !== unknown || path === '') return text;
  return language() === 'en'
    ? t('approvals.refusedBecause', { field: pathLabel(path), reason: visibleText(message) })
    : t('approvals.refusedField', { field: pathLabel(path) });
}
