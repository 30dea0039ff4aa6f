/** The number of documents that need review, in the navigation bar. */

import { useQuery } from '@tanstack/react-query';
import { countQuery } from '../documents/documentQueries';
import { CountBadge } from '../components/ui/CountBadge';

export function ReviewCount() {
  const count = useQuery(countQuery('needs_review'));
  return <CountBadge count={count.data ?? 0} />;
}
