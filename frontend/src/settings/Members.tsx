/** Who is in the organisation, and as what. */

import { useQuery } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { MembershipRole, Organisation } from '../api/types';
import { meQuery } from '../session/config';
import { session } from '../session/session';
import { ago, visibleText } from '../shared/format';
import { ErrorNotice } from '../shared/Notice';
import { ListLimitNotice } from './ListLimitNotice';
import styles from './Settings.module.css';
import { membersQuery } from './settingsQueries';
import { useSettingsMutation } from './useSettingsMutation';
import { Confirm } from '../shared/Confirm';

export const ROLES: readonly [MembershipRole, string][] = [
  ['viewer', 'reads'],
  ['member', 'reads and writes'],
  ['owner', 'owns it'],
];

export function Members({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const me = useQuery(meQuery);
  const members = useQuery(membersQuery(organisation.id));
  const touches = ['organisation', organisation.id, 'members'];
  const at = (userId: string) => ({ organisation_id: organisation.id, user_id: userId });
  const change = useSettingsMutation(touches, ({ userId, role }: { userId: string; role: MembershipRole }) =>
    dataOf(api.PATCH('/api/organisations/{organisation_id}/members/{user_id}', { params: { path: at(userId) }, body: { role } })),
  );
  const remove = useSettingsMutation(touches, (userId: string) =>
    api.DELETE('/api/organisations/{organisation_id}/members/{user_id}', { params: { path: at(userId) } }),
  );
  const leave = useSettingsMutation(['me'], async () => {
    await api.POST('/api/organisations/{organisation_id}/leave', { params: { path: { organisation_id: organisation.id } } });
    session.selectOrganisation(null);
  });
  if (members.isError) return <ErrorNotice error={members.error} onRetry={() => void members.refetch()} />;
  return (
    <>
      <table className={styles.table}>
        <thead>
          <tr>
            <th>Who</th>
            <th>Role</th>
            <th className={styles.second}>Since</th>
            <th>
              <span className="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {members.data?.items.map((one) => {
            const isMe = one.user_id === me.data?.user_id;
            const name = one.email ?? one.user_id.slice(0, 8);
            return (
              <tr key={one.user_id}>
                <td className="truncate" title={visibleText(one.email ?? one.user_id)}>
                  {visibleText(name)} {isMe && <span className="muted">(you)</span>}
                </td>
                <td>
                  <select
                    aria-label={`Role of ${visibleText(name)}`}
                    value={change.isPending && change.variables.userId === one.user_id ? change.variables.role : one.role}
                    disabled={!isOwner || change.isPending}
                    onChange={(event) => change.mutate({ userId: one.user_id, role: event.target.value as MembershipRole })}
                  >
                    {ROLES.map(([role, words]) => (
                      <option key={role} value={role}>
                        {role}: {words}
                      </option>
                    ))}
                  </select>
                </td>
                <td className={styles.second}>{ago(one.created_at)}</td>
                <td className={styles.actions}>
                  {isMe && !organisation.is_personal && (
                    <Confirm words="Leave" question="Leave this organisation?" onSure={() => leave.mutate(undefined)} />
                  )}
                  {isOwner && !isMe && (
                    <Confirm words="Remove" question={`Remove ${visibleText(name)}?`} onSure={() => remove.mutate(one.user_id)} />
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <ListLimitNotice of={members.data} />
      {!isOwner && <p className="muted">Owners change roles.</p>}
    </>
  );
}
