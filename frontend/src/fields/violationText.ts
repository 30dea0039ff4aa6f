/** What the schema says against a value, in the person's language. */

import type { FieldError } from '../api/types';
import en from '../locales/en.json';
import { formatNumber } from '../shared/format';
import { locale, t } from '../shared/i18n';
import type { SchemaField } from './schemaFields';
import { displayValue } from './fieldValue';
import { pathLabel } from './labels';
import { patternText } from './patternText';

type Params = Record<string, unknown>;

/** Return the text of a violation; that of a keyword the page does not know as the service wrote it. */
export function violationText(
  { code, path, message, params }: FieldError,
  schema: readonly SchemaField[] = [],
): string {
  const label = (name: unknown) => pathLabel(String(name).replaceAll('[*]', ''), schema);
  const invalid = params.not_a_number ?? params.not_a_date;
  if (invalid !== undefined) {
    const values = { field: label(invalid), value: displayValue(params.value) };
    return t(params.not_a_number === undefined ? 'violations.not_a_date' : 'violations.not_a_number', values);
  }
  switch (code) {
    case 'sum':
    case 'product':
      return resultText(code, params, label);
    case 'equals':
    case 'date_order': {
      const [first, second] = (params.paths as string[]).map(label);
      const [firstValue, secondValue] = (params.values as unknown[]).map((one) => displayValue(one));
      return t(`violations.${code}`, { first, second, firstValue, secondValue });
    }
    case 'required_if':
      return t('violations.required_if', {
        field: label(params.missing),
        condition: label(params.condition),
        value: displayValue(params.value),
      });
    case 'more':
      return t('violations.more', { count: Number(params.count) });
    default:
      if (!isKnown(code)) return message;
      return t(`violations.${code}`, {
        field: path === '' ? t('violations.wholeDocument') : label(path),
        expected: expectedText(code, params.expected),
      });
  }
}

function isKnown(code: string): code is Exclude<keyof typeof en.violations, 'more_one' | 'more_other'> {
  return Object.hasOwn(en.violations, code);
}

/** "Subtotal + Tax is 52.00, but Total is 55.10 (off by 3.10)." */
function resultText(code: 'sum' | 'product', params: Params, label: (path: unknown) => string): string {
  const names = (params.parts as unknown[]).map(label);
  const parts =
    code === 'sum' && names.length === 1
      ? t('violations.sumOf', { field: names[0] })
      : names.join(code === 'sum' ? ' + ' : ' × ');
  const values = {
    parts,
    actual: amount(params.actual),
    expected: amount(params.expected),
    difference: amount(params.difference),
  };
  return params.total === null
    ? t('violations.fixedTotal', values)
    : t(`violations.${code}`, { ...values, total: label(params.total) });
}

/** Format a decimal with as many decimal places as the service gives it. */
function amount(text: unknown): string {
  const digits = String(text).split('.')[1]?.length ?? 0;
  return formatNumber(Number(text), { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function expectedText(code: string, expected: unknown): string {
  const shown = (Array.isArray(expected) ? expected : [expected]).map((one: unknown) =>
    code === 'type' && isType(one)
      ? t(`types.${one}`)
      : code === 'pattern' && typeof one === 'string'
        ? patternText(one)
        : typeof one === 'number'
          ? formatNumber(one, { maximumFractionDigits: 15 })
          : displayValue(one),
  );
  return code === 'type' ? new Intl.ListFormat(locale(), { type: 'disjunction' }).format(shown) : shown.join(', ');
}

function isType(name: unknown): name is keyof typeof en.types {
  return typeof name === 'string' && Object.hasOwn(en.types, name);
}
