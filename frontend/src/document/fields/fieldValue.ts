/** Values of fields, as they are shown and as people write them. */

import { visibleText } from '../../shared/format';

/** A value in one line. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return visibleText(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return String(value);
  return Array.isArray(value) ? '(empty list)' : '(nothing in it)';
}

/** What stands in the editor for a value. */
export function written(value: unknown): string {
  return value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
}

/** What somebody wrote, in the kind of what stood there: a number stays a number where it is one. `type`: what the schema
 * wants where nothing stands yet. */
export function readWritten(text: string, before: unknown, type = ''): unknown {
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
  // The longest numbers keep their digits as text: 12345678901234567890 is no number here.
  if (/^-?\d{1,15}(\.\d{1,15})?$/.test(trimmed) && !/^-?0\d/.test(trimmed)) return Number(trimmed);
  return text;
}
