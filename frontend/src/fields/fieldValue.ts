/** Values of fields: formatted for reading, and as text in an editor. */

import { formatDay, formatNumber, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { keyLabel } from './labels';
import type { SchemaField } from './schemaFields';

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/;

/** Format a value in one line, by its type in the schema. `quote`, the value as printed, decides the decimal places of a
 * number: 262.9 printed as "262.90" is shown with two. */
export function displayValue(
  value: unknown,
  field?: Pick<SchemaField, 'type' | 'decimals'>,
  quote?: string | null,
): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return displayText(value, field?.type ?? '');
  if (typeof value === 'boolean') return t(value ? 'common.yes' : 'common.no');
  if (typeof value === 'number') return displayNumber(value, field?.decimals ?? 0, quote ?? '');
  if (Object.keys(value).length === 0) return t('fields.emptyValue');
  if (!Array.isArray(value))
    return Object.entries(value)
      .filter(([, one]) => one !== null && one !== '')
      .map(([name, one]) => `${keyLabel(name)}: ${displayValue(one)}`)
      .join(', ');
  // Of a row only the values: its columns are those of the row before it.
  const row = (one: unknown) =>
    one !== null && typeof one === 'object'
      ? Object.values(one)
          .map((cell) => displayValue(cell))
          .filter((text) => text !== '')
          .join(' · ')
      : displayValue(one);
  return value.map(row).join(value.some((one) => one !== null && typeof one === 'object') ? '; ' : ', ');
}

function displayText(value: string, type: string): string {
  const isDate = DAY.test(value) && (type === '' || type === 'date') && !Number.isNaN(Date.parse(value));
  if (isDate) return formatDay(value);
  if (type === 'date-time' && TIME.test(value) && !Number.isNaN(Date.parse(value))) return formatTime(value);
  return visibleText(value);
}

function displayNumber(value: number, decimals: number, quote: string): string {
  if (Number(value.toFixed(15)) !== value) return String(value); // formatting would round it
  const printed = printedNumber(value, quote);
  const minimumFractionDigits = Math.max(decimals, printed.decimals);
  // Without decimals a number may be a year or an identifier: group its digits only if the page does.
  const useGrouping = minimumFractionDigits > 0 || printed.isGrouped || !Number.isInteger(value);
  return formatNumber(value, {
    minimumFractionDigits,
    maximumFractionDigits: Math.max(minimumFractionDigits, 15),
    useGrouping,
  });
}

/** Return how many decimal places a number is shown with by itself. */
export function decimalPlaces(value: number, quote: string): number {
  return Math.max(/^-?\d+\.(\d+)$/.exec(String(value))?.[1]?.length ?? 0, printedNumber(value, quote).decimals);
}

/** Return the decimal places of a column whose quotes are not known: the most of its numbers. One is two: 2.6 is 2.60. */
export function commonDecimals(values: readonly unknown[]): number {
  const most = Math.max(0, ...values.map((one) => (typeof one === 'number' ? decimalPlaces(one, '') : 0)));
  return most === 1 ? 2 : most;
}

/** Return how a number is printed within a quote: its decimal places, and whether its digits are grouped. */
function printedNumber(value: number, quote: string): { decimals: number; isGrouped: boolean } {
  for (const [token] of quote.matchAll(/\d+(?:[.,'’\u00a0\u202f ]\d+)*/g)) {
    const digits = Number(token.replace(/\D/g, ''));
    for (let decimals = 0; decimals <= 4; decimals += 1) {
      const isThis = Math.abs(digits / 10 ** decimals - Math.abs(value)) < 1e-9;
      if (isThis) return { decimals, isGrouped: (token.match(/\D/g)?.length ?? 0) > (decimals > 0 ? 1 : 0) };
    }
  }
  return { decimals: 0, isGrouped: false };
}

/** Return the text of a value in an editor: the stored value, unformatted. */
export function editedText(value: unknown): string {
  return value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
}

/** Parse edited text as a value of the same type as before; a number stays a number if the text is one. `type`: the
 * schema's type, used if there was no value before. */
export function parseEdited(text: string, before: unknown, type = ''): unknown {
  if (before === undefined || before === null) {
    if (/string|date|time|uri|email/.test(type)) return text;
    if (/boolean/.test(type) && /^(true|false)$/.test(text.trim())) return text.trim() === 'true';
    if (/object|array/.test(type)) {
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    }
  }
  if (text === '' && typeof before !== 'string') return null;
  if (typeof before === 'string') return text;
  const trimmed = text.trim();
  if (typeof before === 'boolean') return trimmed === 'true' ? true : trimmed === 'false' ? false : text;
  // Longer numbers stay text: a JavaScript number cannot hold all digits of 12345678901234567890.
  if (/^-?\d{1,15}(\.\d{1,15})?$/.test(trimmed) && !/^-?0\d/.test(trimmed)) return Number(trimmed);
  return text;
}
