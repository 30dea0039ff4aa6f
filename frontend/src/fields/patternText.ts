/** A regular expression in words. */

import { t } from '../shared/i18n';

/** A character or class of a pattern, and how often it may be repeated. */
const PART = /(\\d|\[[^\]^]+\]|\\\W|[^\\[\](){}|*+?.^$])(\{(\d+)(?:,(\d+))?\}|[+*?])?/y;
const SEPARATORS = /\\?[ ./_-]/g;

/** Return a pattern in words: “PO-”, 4 digits. One that is more than a row of characters stays as it is. */
export function patternText(pattern: string): string {
  const inner = /^\^(.+)\$$/.exec(pattern)?.[1];
  const parts: string[] = [];
  let literal = '';
  const endLiteral = () => {
    if (literal !== '') parts.push(`“${literal}”`);
    literal = '';
  };
  PART.lastIndex = 0;
  while (inner !== undefined && PART.lastIndex < inner.length) {
    const found = PART.exec(inner);
    if (found === null) return pattern;
    const [, one = '', repeat = '', least, most = least] = found;
    const kind = kindOf(one);
    if (kind === null && one.startsWith('[')) return pattern;
    if (kind === null && repeat === '') literal += one.replace('\\', '');
    else if (kind !== null && repeat !== '?') {
      endLiteral();
      const number = repeat === '' ? '1' : least === undefined ? '' : least === most ? least : `${least}–${most}`;
      parts.push(t(`schemas.characters.${kind}`, { number, count: Number(most ?? (repeat === '' ? 1 : 2)) }).trim());
    } else if (kind !== null || one.replace(SEPARATORS, '') !== '') return pattern;
  }
  endLiteral();
  return parts.length === 0 ? pattern : parts.join(', ');
}

function kindOf(one: string): 'digits' | 'letters' | 'both' | null {
  if (one === '\\d') return 'digits';
  if (!one.startsWith('[')) return null;
  const digits = one.slice(1, -1).replaceAll(/0-9|\\d/g, '');
  const rest = digits.replaceAll(/A-Z|a-z/g, '');
  if (rest.replaceAll(SEPARATORS, '') !== '') return null;
  const hasDigits = digits.length < one.length - 2;
  if (rest.length === digits.length) return hasDigits ? 'digits' : null;
  return hasDigits ? 'both' : 'letters';
}
