/** A week, a month or a quarter, in UTC as the service counts days. It is part of the address. */

import { DAY_MS, isoDay, formatDays, formatMonth, formatQuarter } from '../shared/format';

export const SPANS = ['week', 'month', 'quarter'] as const;
export type Span = (typeof SPANS)[number];

/** `day`: any day of the period. Both default to the current month. */
export interface PeriodView {
  span?: Span;
  day?: string;
}

export interface Period {
  span: Span;
  /** The first and the last day, both included. */
  since: string;
  until: string;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Parse the search parameters of an address; drop invalid ones. */
export function parsePeriod({ span, day }: Record<string, unknown>): PeriodView {
  const isDay = typeof day === 'string' && DAY.test(day) && !Number.isNaN(Date.parse(day));
  return { ...((SPANS as readonly unknown[]).includes(span) && { span: span as Span }), ...(isDay && { day }) };
}

export function today(): string {
  return isoDay(Date.now());
}

/** Return the period that a day is in. Weeks begin on Monday. */
export function periodOf({ span = 'month', day = today() }: PeriodView): Period {
  const at = new Date(day);
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  if (span === 'week') {
    const monday = at.getTime() - ((at.getUTCDay() + 6) % 7) * DAY_MS;
    return { span, since: isoDay(monday), until: isoDay(monday + 6 * DAY_MS) };
  }
  const first = span === 'month' ? month : month - (month % 3);
  const months = span === 'month' ? 1 : 3;
  return { span, since: isoDay(Date.UTC(year, first, 1)), until: isoDay(Date.UTC(year, first + months, 0)) };
}

/** Return the period before (-1) or after (1). */
export function neighbour(period: Period, step: -1 | 1): Period {
  const edge = step === 1 ? Date.parse(period.until) + DAY_MS : Date.parse(period.since) - DAY_MS;
  return periodOf({ span: period.span, day: isoDay(edge) });
}

/** Return the address of a period; the current month has none. */
export function periodView(period: Period): PeriodView {
  const isNow = period.since <= today() && today() <= period.until;
  return { ...(period.span !== 'month' && { span: period.span }), ...(!isNow && { day: period.since }) };
}

export function daysOf({ since, until }: Period): string[] {
  const count = Math.round((Date.parse(until) - Date.parse(since)) / DAY_MS) + 1;
  return Array.from({ length: count }, (_, index) => isoDay(Date.parse(since) + index * DAY_MS));
}

/** November 2026; Q4 2026; 23–29 Nov 2026. */
export function periodName({ span, since, until }: Period): string {
  if (span === 'week') return formatDays(since, until);
  return span === 'month' ? formatMonth(since) : formatQuarter(since);
}
