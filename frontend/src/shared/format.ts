/** Numbers, dates and sizes in the person's language. */

import { locale, t } from './i18n';

/** A token may cost some billionths of a dollar. */
const NANO = 1e9;
const DAY: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', year: 'numeric' };
/** 20 Mar 2023; 20.03.2023 in German. */
const SHORT_DAY: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeZone: 'UTC' };

/** Return "5 minutes ago", or the day of what is more than a week ago. */
export function formatAge(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 45) return t('common.justNow');
  const relative = new Intl.RelativeTimeFormat(locale(), { numeric: 'auto' });
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), 'hour');
  if (size < 7 * 86_400) return relative.format(Math.round(seconds / 86_400), 'day');
  return new Intl.DateTimeFormat(locale(), DAY).format(Date.parse(at));
}

/** Return "5m", for lists. */
export function formatShortAge(at: string, now = Date.now()): string {
  const minutes = Math.max(0, Math.round((now - Date.parse(at)) / 60_000));
  const [value, unit] =
    minutes < 60 ? [minutes, 'minute'] : minutes < 1440 ? [minutes / 60, 'hour'] : [minutes / 1440, 'day'];
  if (value < 1) return t('common.now');
  return new Intl.NumberFormat(locale(), {
    style: 'unit',
    unit,
    unitDisplay: 'narrow',
    maximumFractionDigits: 0,
  }).format(value);
}

export function formatTime(at: string): string {
  return new Intl.DateTimeFormat(locale(), { ...DAY, hour: 'numeric', minute: '2-digit' }).format(Date.parse(at));
}

/** Format a calendar day (2023-03-20), whatever the time zone. */
export function formatDay(day: string): string {
  return new Intl.DateTimeFormat(locale(), SHORT_DAY).format(Date.parse(day));
}

export function formatDays(first: string, last: string): string {
  return new Intl.DateTimeFormat(locale(), SHORT_DAY).formatRange(Date.parse(first), Date.parse(last));
}

/** Thursday, 26 November 2026 */
export function formatLongDay(at: number): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'full' }).format(at);
}

/** November 2026 */
export function formatMonth(day: string): string {
  return new Intl.DateTimeFormat(locale(), { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(Date.parse(day));
}

/** Q4 2026 */
export function formatQuarter(day: string): string {
  const at = new Date(day);
  return `Q${Math.floor(at.getUTCMonth() / 3) + 1} ${at.getUTCFullYear()}`;
}

/** 26 Nov */
export function formatShortDay(day: string): string {
  return new Intl.DateTimeFormat(locale(), { day: 'numeric', month: 'short', timeZone: 'UTC' }).format(Date.parse(day));
}

export function formatNumber(value: number, options: Intl.NumberFormatOptions = {}): string {
  return new Intl.NumberFormat(locale(), options).format(value);
}

export function formatBytes(count: number): string {
  const [value, unit] =
    count < 1000 ? [count, 'byte'] : count < 1_000_000 ? [count / 1000, 'kilobyte'] : [count / 1_000_000, 'megabyte'];
  return formatNumber(value, {
    style: 'unit',
    unit,
    unitDisplay: unit === 'byte' ? 'narrow' : 'short',
    maximumFractionDigits: unit === 'megabyte' ? 1 : 0,
  });
}

/** `part`: 0..1. */
export function formatPercent(part: number): string {
  return formatNumber(part, { style: 'percent' });
}

/** `part`: 0..1, with one digit after the point. */
export function formatShare(part: number): string {
  return formatNumber(part, { style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 });
}

/** Add costs as decimal amounts, as the service does: the sum of 0.1 and 0.2 is 0.3. null: one of them is not known. */
export function sumCosts(costs: readonly (number | null)[]): number | null {
  if (costs.includes(null)) return null;
  return costs.reduce((sum: number, one) => sum + Math.round(one! * NANO), 0) / NANO;
}

/** Format a cost in a column of costs: two digits, more only for amounts below a cent. */
export function formatCost(amount: number): string {
  return inDollars(amount, amount > 0 && amount < 0.01 ? 4 : 2);
}

/** Format the cost of a document: 3.7 ¢. */
export function formatCents(amount: number): string {
  return amount >= 1 ? formatCost(amount) : `${formatNumber(amount * 100, { maximumFractionDigits: 1 })} ¢`;
}

/** Format a cost with as many digits as small amounts need. */
export function formatDollars(amount: number): string {
  return inDollars(amount, amount < 1 ? 4 : 2);
}

function inDollars(amount: number, digits: number): string {
  return formatNumber(amount, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Format a price, with all its digits. */
export function formatPrice(amount: number): string {
  return formatNumber(amount, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    maximumFractionDigits: 9,
  });
}

/** Format an estimate of a cost: "about $1.20", "less than $0.01". */
export function formatEstimate(amount: number): string {
  return amount < 0.01
    ? t('common.lessThan', { amount: inDollars(0.01, 2) })
    : t('common.about', { amount: inDollars(amount, 2) });
}

/** 120ms, 7.5s, 14m 55s. */
export function formatDuration(milliseconds: number): string {
  const inUnit = (value: number, unit: string, maximumFractionDigits = 0) =>
    formatNumber(value, { style: 'unit', unit, unitDisplay: 'narrow', maximumFractionDigits });
  if (milliseconds < 1000) return inUnit(milliseconds, 'millisecond');
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return inUnit(milliseconds / 1000, 'second', 1);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const units = ['hour', 'minute', 'second'];
  return parts
    .flatMap((value, at) => (value === 0 ? [] : [inUnit(value, units[at]!)]))
    .slice(0, 2)
    .join(' ');
}

/** Escape invisible characters and those that change the direction of text, so that no name can be mistaken for another. */
export function visibleText(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (one) =>
    one === '\n' || one === '\t' ? ' ' : `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export const DAY_MS = 86_400_000;

/** Return the day of a time, in UTC as the service counts days: 2024-03-12. */
export function isoDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
