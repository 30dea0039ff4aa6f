/** Values of cells: formatted for reading, copied to a spreadsheet, and read from typed or pasted text. */

import type { RecordCell, RecordRow, RecordsPage, TableColumn } from '../api/types';
import { decimalPlaces, displayValue } from '../fields/fieldValue';
import { formatNumber } from '../shared/format';
import { locale, t } from '../shared/i18n';

export type ColumnType = TableColumn['type'];

/** `decimals`: the least decimal places of a number, or with `isExact` as many. */
export function displayCell(
  cell: RecordCell | undefined,
  { type, decimals = 0, isExact = false }: { type: ColumnType; decimals?: number; isExact?: boolean },
): string {
  if (cell === undefined || cell.value === null) return '';
  if (isExact && typeof cell.value === 'number')
    return formatNumber(cell.value, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return displayValue(cell.value, { type: type === 'text' ? 'string' : type, decimals }, cell.quote);
}

/** Return the currency of an amount that no column shows; null: none. */
export function ownCurrency(
  { cells }: Pick<RecordRow, 'cells'>,
  cell: RecordCell | undefined,
  columns: readonly Pick<TableColumn, 'path'>[],
): string | null {
  const currency = cell?.currency ?? null;
  return columns.some(({ path }) => cells[path]?.value === currency) ? null : currency;
}

/** Return the decimal places of each column of amounts, the most frequent ones: `5` beside `1,888.24` is `5.00`. A number
 * column is one of amounts if a tenth of its values, or half of those without a currency, have two decimal places or more. */
export function columnDecimals({ columns, items }: Pick<RecordsPage, 'columns' | 'items'>): Map<string, number> {
  const numbers = columns.filter(({ type }) => type === 'number');
  return new Map(numbers.map(({ path }) => [path, amountDecimals(items.map(({ cells }) => cells[path]))]));
}

function amountDecimals(cells: readonly (RecordCell | undefined)[]): number {
  const numbers = cells.filter((cell) => typeof cell?.value === 'number');
  const counts = new Map<number, number>();
  for (const cell of numbers) {
    const places = decimalPlaces(cell!.value as number, cell!.quote ?? '');
    if (places > 0) counts.set(places, (counts.get(places) ?? 0) + 1);
  }
  const [decimals, count] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), [0, 0]);
  const share = numbers.some((cell) => cell?.currency != null) ? 0.1 : 0.5;
  return decimals >= 2 && count >= share * numbers.length ? decimals : 0;
}

/** Return a value as spreadsheets read it: a number with the person's decimal separator and no grouping, a date as
 * 2024-03-12. */
export function copiedText(value: RecordCell['value'] | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return t(value ? 'common.yes' : 'common.no');
  if (typeof value === 'number') return String(value).replace('.', decimalSeparator());
  return value;
}

/** Whether a value has the type of its column. No value fits each column. */
export function fitsColumn(value: unknown, type: ColumnType): boolean {
  if (value === null || value === undefined) return true;
  if (type === 'date')
    return typeof value === 'string' && /^\d{4}-\d{2}-\d{2}$/.test(value) && parseDay(value) === value;
  return typeof value === (type === 'text' ? 'string' : type);
}

export type ParsedCell = { value: string | number | boolean | null } | { problem: Exclude<ColumnType, 'text'> };

/** Parse typed or pasted text as a value of a column's type. Empty text is no value (null). */
export function parseCell(text: string, type: ColumnType): ParsedCell {
  const trimmed = text.trim();
  if (trimmed === '') return { value: null };
  if (type === 'text') return { value: text };
  const value = type === 'number' ? parseNumber(trimmed) : type === 'date' ? parseDay(trimmed) : parseBoolean(trimmed);
  return value === null ? { problem: type } : { value };
}

/** Parse a number as written in the person's language, or as 1234.5. "1.234" is 1234 in German and 1.234 in English. Null
 * if it is not a number, or has more digits than a JavaScript number can hold. */
function parseNumber(text: string): number | null {
  const decimal = decimalSeparator();
  const grouping = decimal === ',' ? /[.\u00a0\u202f ']/g : /[,\u00a0\u202f ']/g;
  const sign = /^[-−]/.test(text) ? '-' : '';
  const digits = text.replace(/^[-−+]/, '').trim();
  const own =
    decimal === ','
      ? /^\d{1,3}(?:[.\u00a0\u202f ']\d{3})*(?:,\d+)?$|^\d+(?:,\d+)?$/
      : /^\d{1,3}(?:[,\u00a0\u202f ']\d{3})*(?:\.\d+)?$|^\d+(?:\.\d+)?$/;
  const plain = own.test(digits) ? digits.replace(grouping, '').replace(decimal, '.') : digits;
  if (!/^\d+(?:\.\d+)?$/.test(plain) || plain.replace('.', '').replace(/^0+/, '').length > 15) return null;
  return Number(sign + plain);
}

function decimalSeparator(): string {
  return new Intl.NumberFormat(locale()).formatToParts(1.5).find(({ type }) => type === 'decimal')?.value ?? '.';
}

/** Parse 2024-03-12, or a day as written in the person's language: 12/03/2024, 12.3.2024, 12 Mar 2024. */
function parseDay(text: string): string | null {
  const iso = /^(\d{4})-(\d{1,2})-(\d{1,2})$/.exec(text);
  if (iso !== null) return dayOf(Number(iso[1]), Number(iso[2]), Number(iso[3]));
  const dayFirst = /^(\d{1,2})[./](\d{1,2})[./](\d{4})$/.exec(text);
  if (dayFirst !== null) return dayOf(Number(dayFirst[3]), Number(dayFirst[2]), Number(dayFirst[1]));
  const named = /^(\d{1,2})\.? (\p{L}{3,12})\.? (\d{4})$/u.exec(text);
  if (named === null) return null;
  const month = monthNames().findIndex((name) => name.startsWith(named[2]!.toLowerCase().slice(0, 3))) + 1;
  return month === 0 ? null : dayOf(Number(named[3]), month, Number(named[1]));
}

function monthNames(): string[] {
  const format = new Intl.DateTimeFormat(locale(), { month: 'long', timeZone: 'UTC' });
  return Array.from({ length: 12 }, (_, month) => format.format(Date.UTC(2024, month, 1)).toLowerCase());
}

function dayOf(year: number, month: number, day: number): string | null {
  const date = new Date(Date.UTC(year, month - 1, day));
  const isReal = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return isReal ? date.toISOString().slice(0, 10) : null;
}

function parseBoolean(text: string): boolean | null {
  const word = text.toLowerCase();
  if (['true', '1', t('common.yes').toLowerCase()].includes(word)) return true;
  return ['false', '0', t('common.no').toLowerCase()].includes(word) ? false : null;
}
