/** The status of a document, or of its row of a table: the same words and signs on each page. */

import {
  Circle,
  CircleCheck,
  CircleDashed,
  CircleHelp,
  Clock,
  Copy,
  FolderArchive,
  LoaderCircle,
  type LucideIcon,
  ShieldCheck,
  Sparkles,
  TriangleAlert,
} from 'lucide-react';
import type { Document, RecordRow } from '../api/types';
import { StatusPill, type Tone } from '../components/ui/StatusPill';
import { t } from '../shared/i18n';

export type StatusName =
  | RecordRow['status']
  | 'processing'
  | 'unread'
  | 'proposed'
  | 'to_check'
  | 'reviewed'
  | 'password';

const STATUSES: Record<StatusName, { tone: Tone; icon: LucideIcon }> = {
  processing: { tone: 'plain', icon: Clock },
  waiting: { tone: 'plain', icon: Clock },
  unread: { tone: 'plain', icon: CircleDashed },
  running: { tone: 'plain', icon: LoaderCircle },
  awaiting_approval: { tone: 'accent', icon: ShieldCheck },
  proposed: { tone: 'accent', icon: Sparkles },
  to_check: { tone: 'need', icon: CircleHelp },
  incomplete: { tone: 'need', icon: CircleHelp },
  stale: { tone: 'need', icon: Clock },
  done: { tone: 'plain', icon: Circle },
  reviewed: { tone: 'ok', icon: CircleCheck },
  duplicate: { tone: 'plain', icon: Copy },
  container: { tone: 'plain', icon: FolderArchive },
  failed: { tone: 'bad', icon: TriangleAlert },
  password: { tone: 'bad', icon: TriangleAlert },
};
const OF_STAGE: Partial<Record<Document['stage'], StatusName>> = {
  ready: 'unread',
  extracting: 'running',
  needs_review: 'to_check',
  extracted: 'done',
};

/** Return the status of a document in a stage. */
export function stageStatus(stage: Document['stage']): { label: string; icon: LucideIcon } {
  const status = OF_STAGE[stage] ?? (stage as StatusName);
  return { label: statusName(status), icon: STATUSES[status].icon };
}

/** `count`: of fields to check, of which `missing` have no value. */
export function statusName(status: StatusName, count = 0, missing = 0): string {
  if (status !== 'to_check' || count === 0) return t(`statuses.${status}`);
  return t(missing === count ? 'statuses.missing' : 'statuses.toCheck', { count });
}

export function StatusBadge({ status, label = statusName(status) }: { status: StatusName; label?: string }) {
  const { tone, icon } = STATUSES[status];
  return (
    <StatusPill kind="text" tone={tone} icon={icon}>
      {label}
    </StatusPill>
  );
}

interface Props {
  document: Pick<Document, 'stage' | 'to_review' | 'error_code'>;
}

export function StageBadge({ document: { stage, to_review: count, error_code: code } }: Props) {
  const status = code === 'password' ? 'password' : (OF_STAGE[stage] ?? (stage as StatusName));
  return <StatusBadge status={status} label={statusName(status, count)} />;
}
