/** The status of a document: what happens to it now, or what it needs next. */

import {
  Circle,
  CircleCheck,
  CircleHelp,
  Clock,
  LoaderCircle,
  type LucideIcon,
  ShieldCheck,
  Sparkles,
  TriangleAlert,
} from 'lucide-react';
import type { Document } from '../api/types';
import { StatusPill, type Tone } from '../components/ui/StatusPill';
import { t } from '../shared/i18n';

export const STAGE_SIGNS: Record<Document['stage'], { tone: Tone; icon: LucideIcon }> = {
  processing: { tone: 'plain', icon: Clock },
  ready: { tone: 'plain', icon: Circle },
  extracting: { tone: 'plain', icon: LoaderCircle },
  awaiting_approval: { tone: 'accent', icon: ShieldCheck },
  proposed: { tone: 'accent', icon: Sparkles },
  needs_review: { tone: 'need', icon: CircleHelp },
  extracted: { tone: 'plain', icon: Circle },
  reviewed: { tone: 'ok', icon: CircleCheck },
  failed: { tone: 'bad', icon: TriangleAlert },
};

interface Props {
  document: Pick<Document, 'stage' | 'to_review' | 'error_code'>;
}

export function StageBadge({ document: { stage, to_review: count, error_code: code } }: Props) {
  const { tone, icon } = STAGE_SIGNS[stage];
  return (
    <StatusPill kind="text" tone={tone === 'ok' ? 'plain' : tone} icon={icon}>
      {stage === 'needs_review' && count > 0
        ? t('documents.toCheck', { count })
        : t(`documents.statuses.${code === 'password' ? 'password' : stage}`)}
    </StatusPill>
  );
}
