/** The status of a document, in a word: the same one wherever it is shown. */

import type { Document } from '../api/types';
import { Badge, type Tone } from '../shared/Badge';
import type { SignName } from '../shared/Sign';

export const STAGES: Record<Document['stage'], { words: string; tone: Tone; sign?: SignName }> = {
  processing: { words: 'Processing', tone: 'plain' },
  ready: { words: 'Ready', tone: 'plain' },
  extracting: { words: 'Extracting', tone: 'plain', sign: 'spark' },
  awaiting_approval: { words: 'Needs approval', tone: 'unsure', sign: 'question' },
  proposed: { words: 'Suggestion', tone: 'unsure', sign: 'question' },
  needs_review: { words: 'Needs review', tone: 'unsure', sign: 'warning' },
  reviewed: { words: 'Reviewed', tone: 'good', sign: 'check' },
  failed: { words: 'Failed', tone: 'bad', sign: 'cross' },
};

export function StageBadge({ document }: { document: Pick<Document, 'stage' | 'to_review' | 'error_code'> }) {
  const { words, tone, sign } = STAGES[document.stage];
  const said = document.error_code === 'password' ? 'Password required' : words;
  return (
    <Badge tone={tone} sign={sign}>
      {said}
      {document.to_review ? ` (${document.to_review.toLocaleString()})` : ''}
    </Badge>
  );
}
