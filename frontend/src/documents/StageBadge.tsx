/** The status of a document. */

import type { Document } from '../api/types';
import { Badge, type Tone } from '../shared/Badge';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import type { IconName } from '../shared/Icon';

export const STAGES: Record<Document['stage'], { tone: Tone; icon?: IconName }> = {
  processing: { tone: 'plain' },
  ready: { tone: 'plain' },
  extracting: { tone: 'plain', icon: 'spark' },
  awaiting_approval: { tone: 'unsure', icon: 'question' },
  proposed: { tone: 'unsure', icon: 'question' },
  needs_review: { tone: 'unsure', icon: 'warning' },
  extracted: { tone: 'plain' },
  reviewed: { tone: 'good', icon: 'check' },
  failed: { tone: 'bad', icon: 'cross' },
};

export function StageBadge({ document }: { document: Pick<Document, 'stage' | 'to_review' | 'error_code'> }) {
  const { tone, icon } = STAGES[document.stage];
  return (
    <Badge tone={tone} icon={icon}>
      {t(`documents.statuses.${document.error_code === 'password' ? 'password' : document.stage}`)}
      {document.to_review ? ` (${formatNumber(document.to_review)})` : ''}
    </Badge>
  );
}
