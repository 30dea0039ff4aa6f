/** The number of calls that need approval, in the navigation bar. */

import { useQuery } from '@tanstack/react-query';
import { CountBadge } from '../components/ui/CountBadge';
import { waitingQuery } from './approvalQueries';

export function ApprovalCount() {
  const { data } = useQuery(waitingQuery);
  return <CountBadge count={data?.items.length ?? 0} isMore={data?.next != null} />;
}
