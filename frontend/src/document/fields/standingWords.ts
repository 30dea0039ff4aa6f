/** What is said of how a value stands: a word, a sign and a tone, and a sentence where there is room. */

import type { Tone } from '../../shared/Badge';
import { percent } from '../../shared/format';
import type { SignName } from '../../shared/Sign';
import type { Leaf, Standing } from './fieldTree';

export const STANDINGS: Record<Standing, { words: string; tone: Tone; sign: SignName }> = {
  waiting: { words: 'needs approval', tone: 'unsure', sign: 'question' },
  preview: { words: 'being written', tone: 'plain', sign: 'spark' },
  missing: { words: 'missing', tone: 'bad', sign: 'warning' },
  broken: { words: 'breaks a rule', tone: 'bad', sign: 'warning' },
  proposal: { words: 'proposal', tone: 'unsure', sign: 'question' },
  not_found: { words: 'not found', tone: 'bad', sign: 'cross' },
  unsure: { words: 'unsure', tone: 'unsure', sign: 'question' },
  blank: { words: 'blank', tone: 'plain', sign: 'minus' },
  locked: { words: 'set by a person', tone: 'good', sign: 'lock' },
  found: { words: 'found', tone: 'good', sign: 'check' },
  stated: { words: 'no evidence', tone: 'plain', sign: 'minus' },
};

const MATCHES: Record<string, string> = {
  exact: 'as it is printed',
  normalised: 'but for capitals, accents and spaces',
  number: 'as a number',
  date: 'as a date',
  fuzzy: 'nearly: the text was read from a picture',
  quote: 'by what the agent quoted',
  symbol: 'by a symbol that other currencies have too',
};

/** Where and how a value was found, in a sentence. */
export function evidenceSentence({ evidence, confidence, standing }: Leaf): string {
  if (standing === 'preview') return 'The agent is still writing this. Nothing is stored yet.';
  if (standing === 'missing') return 'The schema requires a value here.';
  if (standing === 'waiting' && evidence === undefined) return 'Not stored yet: it needs approval.';
  if (evidence === undefined) return 'Nobody has looked for this value on the page.';
  if (evidence.state === 'blank') return 'The document leaves this blank.';
  if (evidence.state === 'message') return 'From a message: no page prints this value.';
  if (evidence.state === 'not_found') return 'No page prints this value.';
  const how = evidence.match === null ? '' : `, ${MATCHES[evidence.match] ?? evidence.match}`;
  const sure = confidence === undefined ? '' : ` · ${percent(confidence)} sure`;
  return `Found on page ${evidence.page}${how}${sure}`;
}
