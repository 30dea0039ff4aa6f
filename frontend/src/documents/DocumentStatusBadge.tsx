/** How far a document is, in a word. */

import type { Document } from '../api/types';
import { Badge } from '../shared/Badge';

export function DocumentStatusBadge({ document }: { document: Document }) {
  if (document.status === 'ready') return <Badge tone="good" sign="check">Read</Badge>;
  if (document.status === 'reading') return <Badge>Reading…</Badge>;
  return <Badge tone="bad" sign="cross">{document.error_code === 'password' ? 'Needs its password' : 'Not read'}</Badge>;
}
