/** The status of a document, in a word: the same one wherever it is shown. */

import type { Document } from '../api/types';
import { Badge, type Tone } from '../shared/Badge';
import type { IconName } from '../shared/Icon';

export const STAGES: Record<Document['stage'], { words: string; tone: Tone; icon?: IconName }> = {
  processing: { words: 'Processing', tone: 'plain' },
  ready: { words: 'Ready', tone: 'plain' },
  extracting: { words: 'Extracting', tone: 'plain', icon: 'spark' },
  awaiting_approval: { words: 'Needs approval', tone: 'unsure', icon: 'question' },
  proposed: { words: 'Suggestion', tone: 'unsure', icon: 'question' },
  needs_review: { words: 'Needs review', tone: 'unsure', icon: 'warning' },
  extracted: { words: 'Extracted', tone: 'plain' },
  reviewed: { words: 'Reviewed', tone: 'good', icon: 'check' },
  failed: { words: 'Failed', tone: 'bad', icon: 'cross' },
};

export function StageBadge({ document }: { document: Pick<Document, 'stage' | 'to_review' | 'error_code'> }) {
  const { words, tone, icon } = STAGES[document.stage];
  const said = document.error_code === 'password' ? 'Password required' : words;
  return (
    <Badge tone={tone} icon={icon}>
      {said}
      {document.to_review ? ` (${document.to_review.toLocaleString()})` : ''}
    </Badge>
  );
}
