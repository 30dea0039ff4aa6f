/** What the person may do in the organisation that they act in. */

import { useQuery } from '@tanstack/react-query';
import type { MembershipRole } from '../api/types';
import { meQuery } from './config';
import { useSession } from './session';

/** undefined: not known yet. */
export function useRole(): MembershipRole | undefined {
  const { organisationId } = useSession();
  const me = useQuery(meQuery);
  return me.data?.organisations.find((one) => (organisationId === null ? one.is_personal : one.id === organisationId))?.role;
}

/** Whether the person changes anything here. A viewer only reads. */
export function useCanWrite(): boolean {
  return useRole() !== 'viewer';
}
