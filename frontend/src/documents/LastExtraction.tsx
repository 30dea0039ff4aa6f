/** What was extracted from a document last, in a word or two. */

import type { ExtractionSummary } from '../api/types';
import { Badge } from '../shared/Badge';
import { count } from '../shared/format';

export function LastExtraction({ extraction }: { extraction: ExtractionSummary | null | undefined }) {
  if (extraction === undefined) return null;
  if (extraction === null) return <span className="soft">–</span>;
  if (extraction.proposals > 0) return <Badge tone="unsure" sign="question">{count(extraction.proposals, 'proposal')}</Badge>;
  if (extraction.status === 'failed') return <Badge tone="bad" sign="warning">Failed</Badge>;
  if (extraction.valid === false) return <Badge tone="bad" sign="warning">Breaks its schema</Badge>;
  if (extraction.status === 'in_progress') return <Badge>In progress</Badge>;
  return <Badge tone="good" sign="check">Complete</Badge>;
}
