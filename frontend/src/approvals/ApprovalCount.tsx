/** How many calls wait for a decision, beside the area's name. */

import { useQuery } from '@tanstack/react-query';
import { CountBadge } from '../shared/CountBadge';
import { waitingQuery } from './approvalQueries';

export function ApprovalCount() {
  const { data } = useQuery(waitingQuery);
  return <CountBadge count={data?.items.length ?? 0} isMore={data?.next != null} />;
}
