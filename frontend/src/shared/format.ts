/** Numbers, times and sizes as people read them. */

const rtf = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** "5 minutes ago", and beyond a week the day. */
export function ago(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 45) return 'just now';
  if (size < 3600) return rtf.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return rtf.format(Math.round(seconds / 3600), 'hour');
  if (size < 7 * 86_400) return rtf.format(Math.round(seconds / 86_400), 'day');
  return day.format(Date.parse(at));
}

export function atMoment(at: string): string {
  return moment.format(Date.parse(at));
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${Math.round(count / 1000)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

export function percent(part: number): string {
  return `${Math.round(part * 100)}%`;
}

/** What a run has cost. Small sums keep what tells them apart. */
export function dollars(amount: number): string {
  return `$${amount < 1 ? amount.toFixed(4) : amount.toFixed(2)}`;
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

export function seconds(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** A text in which directions and invisible characters are spelt out, so that no name reads as another. */
export function visibleText(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (one) =>
    one === '\n' || one === '\t' ? ' ' : `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
