/** What is said of how a value stands: a word, a sign and a tone, and a sentence where there is room. */

import type { Tone } from '../../shared/Badge';
import { percent } from '../../shared/format';
import type { SignName } from '../../shared/Sign';
import type { Leaf, Standing } from './fieldTree';

export const STANDINGS: Record<Standing, { words: string; tone: Tone; sign: SignName }> = {
  waiting: { words: 'Needs approval', tone: 'unsure', sign: 'question' },
  preview: { words: 'Writing…', tone: 'plain', sign: 'spark' },
  missing: { words: 'Missing', tone: 'bad', sign: 'warning' },
  broken: { words: 'Rule failed', tone: 'bad', sign: 'warning' },
  proposal: { words: 'Suggestion', tone: 'unsure', sign: 'question' },
  not_found: { words: 'Not on page', tone: 'bad', sign: 'cross' },
  unsure: { words: 'Low confidence', tone: 'unsure', sign: 'question' },
  blank: { words: 'Left blank', tone: 'plain', sign: 'minus' },
  locked: { words: 'Confirmed', tone: 'good', sign: 'lock' },
  found: { words: 'Matched', tone: 'good', sign: 'check' },
  stated: { words: 'Not checked', tone: 'plain', sign: 'minus' },
};

const MATCHES: Record<string, string> = {
  exact: 'exact match',
  normalised: 'ignoring case, accents and spacing',
  number: 'same number',
  date: 'same date',
  fuzzy: 'close match (scanned text)',
  quote: 'from the quoted text',
  symbol: 'ambiguous currency symbol',
};

/** Where and how a value was found, in a sentence. */
export function evidenceSentence({ evidence, confidence, standing }: Leaf): string {
  if (standing === 'preview') return 'Still being written, not saved yet.';
  if (standing === 'missing') return 'The schema requires a value here.';
  if (standing === 'waiting' && evidence === undefined) return 'Not saved yet: it needs approval.';
  if (evidence === undefined) return 'Not checked against the page.';
  if (evidence.state === 'blank') return 'Blank in the document.';
  if (evidence.state === 'message') return 'From a message: no page prints this value.';
  if (evidence.state === 'not_found') return 'Not found in the document.';
  const how = evidence.match === null ? '' : ` · ${MATCHES[evidence.match] ?? evidence.match}`;
  const sure = confidence === undefined ? '' : ` · ${percent(confidence)}`;
  return `Page ${evidence.page}${how}${sure}`;
}
