/** Names of the people in an organisation. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';
import { api } from '../api/client';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { meQuery } from './config';
import { useOrganisation } from './role';

/** The number of members, invitations or keys that are shown. */
export const LIMIT = 200;

export const ofOrganisation = (organisationId: string) => ({
  path: { organisation_id: organisationId },
  query: { limit: LIMIT },
});

export const membersQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'members'],
    queryFn: ({ signal }) =>
      api.get('/api/organisations/{organisation_id}/members', { ...ofOrganisation(organisationId), signal }),
  });

/** The members of the current organisation, once they are loaded. */
export function useMembers() {
  const organisation = useOrganisation();
  const query = membersQuery(organisation?.id ?? '');
  return useQuery({ ...query, enabled: organisation !== undefined, staleTime: 60_000 }).data?.items ?? [];
}

/** Return "Jo Doyle" for jo.doyle@example.org. */
export function nameOfEmail(email: string): string {
  const words = visibleText(email.split('@')[0] ?? '').split(/[._-]+/);
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(' ');
}

/** Return a function from a user's id to their name, or to the start of their id where no email is known. */
export function useFullName(): (userId: string) => string {
  const me = useQuery(meQuery).data;
  const members = useMembers();
  return useCallback(
    (userId) => {
      const isMe = userId === me?.user_id;
      const email = isMe ? me.email : members.find((one) => one.user_id === userId)?.email;
      if (email != null) return nameOfEmail(email);
      return isMe ? t('account.you') : t('people.user', { id: userId.slice(0, 8) });
    },
    [me, members],
  );
}

/** Return a function from a user's id to their name, or to "you". `isAlone`: the name is no part of a phrase such as
 * "by you". */
export function usePersonName(isAlone = false): (userId: string) => string {
  const own = useQuery(meQuery).data?.user_id;
  const fullName = useFullName();
  return useCallback(
    (userId) => (userId === own ? t(isAlone ? 'people.youAlone' : 'people.you') : fullName(userId)),
    [own, fullName, isAlone],
  );
}
