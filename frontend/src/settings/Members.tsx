/** The members of an organisation and their roles. */

import { useQuery } from '@tanstack/react-query';
import { LogOut, UserMinus } from 'lucide-react';
import { api } from '../api/client';
import type { MembershipRole, Organisation } from '../api/types';
import { meQuery } from '../session/config';
import { membersQuery, useFullName } from '../session/people';
import { session } from '../session/session';
import { formatDay, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { SettingsTable } from './SettingsTable';
import { Select } from '../components/ui/Select';
import { Td, Th, Tr } from '../components/ui/Table';
import { Avatar } from '../session/Avatar';
import { useChange } from '../shared/useChange';
import { RowMenu } from './RowMenu';

const ROLES: readonly MembershipRole[] = ['viewer', 'member', 'owner'];

export function roleOptions() {
  return ROLES.map((role) => ({
    value: role,
    label: t(`settings.roles.${role}`),
    hint: t(`settings.roles.${role}Hint`),
  }));
}

export function Members({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const me = useQuery(meQuery);
  const fullName = useFullName();
  const members = useQuery(membersQuery(organisation.id));
  const touches = ['organisation', organisation.id, 'members'] as const;
  const at = (userId: string) => ({ organisation_id: organisation.id, user_id: userId });
  const change = useChange([touches], ({ userId, role }: { userId: string; role: MembershipRole }) =>
    api.patch('/api/organisations/{organisation_id}/members/{user_id}', { path: at(userId), body: { role } }),
  );
  const remove = useChange([touches], (userId: string) =>
    api.delete('/api/organisations/{organisation_id}/members/{user_id}', { path: at(userId) }),
  );
  const leave = useChange(['me'], async () => {
    await api.post('/api/organisations/{organisation_id}/leave', { path: { organisation_id: organisation.id } });
    session.selectOrganisation(null);
  });
  const isAlone = members.data?.items.length === 1; // the only owner
  return (
    <>
      <SettingsTable
        label={t('settings.sections.members')}
        list={members}
        heads={
          <>
            <Th>{t('settings.members.member')}</Th>
            <Th>{t('settings.members.role')}</Th>
            <Th className="max-sm:hidden">{t('settings.members.joined')}</Th>
          </>
        }
        row={(one) => {
          const isMe = one.user_id === me.data?.user_id;
          const name = fullName(one.user_id);
          return (
            <Tr key={one.user_id}>
              <Td className="w-full max-w-0 min-w-32 py-1.5" title={visibleText(one.email ?? one.user_id)}>
                <span className="flex items-center gap-3">
                  <Avatar id={one.user_id} size={28} />
                  <span className="min-w-0">
                    <span className="flex gap-2">
                      <span className="truncate font-medium first-letter:uppercase">{name}</span>
                      {isMe && <span className="text-muted-foreground">{t('settings.members.you')}</span>}
                    </span>
                    <span className="block truncate text-xs text-muted-foreground">{visibleText(one.email ?? '')}</span>
                  </span>
                </span>
              </Td>
              <Td>
                {isAlone || !isOwner ? (
                  t(`settings.roles.${one.role}`)
                ) : (
                  <Select
                    kind="quiet"
                    className="-ml-2 font-normal text-foreground"
                    label={t('settings.members.roleOf', { name })}
                    value={
                      change.isPending && change.variables.userId === one.user_id ? change.variables.role : one.role
                    }
                    disabled={change.isPending}
                    options={roleOptions()}
                    onChange={(role) => change.mutate({ userId: one.user_id, role })}
                  />
                )}
              </Td>
              <Td className="whitespace-nowrap text-muted-foreground max-sm:hidden" title={formatTime(one.created_at)}>
                {formatDay(one.created_at)}
              </Td>
              <Td className="text-right">
                {isMe && !organisation.is_personal && (
                  <RowMenu
                    name={name}
                    icon={LogOut}
                    action={t('settings.members.leave')}
                    question={t('settings.members.leaveQuestion')}
                    onConfirm={() => leave.mutate()}
                  />
                )}
                {isOwner && !isMe && (
                  <RowMenu
                    name={visibleText(one.email ?? name)}
                    icon={UserMinus}
                    action={t('settings.members.remove')}
                    question={t('settings.members.removeQuestion')}
                    onConfirm={() => remove.mutate(one.user_id)}
                  />
                )}
              </Td>
            </Tr>
          );
        }}
      />
      {!isOwner && <p className="muted">{t('settings.members.onlyOwners')}</p>}
    </>
  );
}
