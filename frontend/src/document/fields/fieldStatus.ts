/** What is said of how a value stands: a word, a icon and a tone, and a sentence where there is room. */

import type { Tone } from '../../shared/Badge';
import { percent } from '../../shared/format';
import type { IconName } from '../../shared/Icon';
import type { Leaf, FieldStatus } from './fieldTree';

export const FIELD_STATUSES: Record<FieldStatus, { words: string; tone: Tone; icon: IconName }> = {
  waiting: { words: 'Needs approval', tone: 'unsure', icon: 'question' },
  preview: { words: 'Writing…', tone: 'plain', icon: 'spark' },
  missing: { words: 'Missing', tone: 'bad', icon: 'warning' },
  broken: { words: 'Rule failed', tone: 'bad', icon: 'warning' },
  proposal: { words: 'Suggestion', tone: 'unsure', icon: 'question' },
  not_found: { words: 'Not on page', tone: 'bad', icon: 'cross' },
  unsure: { words: 'Low confidence', tone: 'unsure', icon: 'question' },
  blank: { words: 'Left blank', tone: 'plain', icon: 'minus' },
  locked: { words: 'Confirmed', tone: 'good', icon: 'lock' },
  found: { words: 'Matched', tone: 'good', icon: 'check' },
  stated: { words: 'Not checked', tone: 'plain', icon: 'minus' },
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
export function evidenceSentence({ evidence, confidence, status }: Leaf): string {
  if (status === 'preview') return 'Still being written, not saved yet.';
  if (status === 'missing') return 'The schema requires a value here.';
  if (status === 'waiting' && evidence === undefined) return 'Not saved yet: it needs approval.';
  if (evidence === undefined) return 'Not checked against the page.';
  if (evidence.state === 'blank') return 'Blank in the document.';
  if (evidence.state === 'message') return 'From a message: no page prints this value.';
  if (evidence.state === 'not_found') return 'Not found in the document.';
  const how = evidence.match === null ? '' : ` · ${MATCHES[evidence.match] ?? evidence.match}`;
  const sure = confidence === undefined ? '' : ` · ${percent(confidence)}`;
  return `Page ${evidence.page}${how}${sure}`;
}
