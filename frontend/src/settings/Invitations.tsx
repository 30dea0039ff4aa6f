/** Invitations: create a link per person, see their status, revoke them. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Invitation, MembershipRole, Organisation } from '../api/types';
import { Button } from '../components/ui/Button';
import { formatAge, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import { Confirm } from '../components/ui/Confirm';
import { ROLES } from './Members';
import { ListLimitNotice } from './ListLimitNotice';
import { OneTimeSecret } from './OneTimeSecret';
import styles from './Settings.module.css';
import { invitationsQuery } from './settingsQueries';
import { useSettingsMutation } from './useSettingsMutation';

export function Invitations({ organisation }: { organisation: Organisation }) {
  const invitations = useQuery(invitationsQuery(organisation.id));
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<MembershipRole>('member');
  const [link, setLink] = useState<string | null>(null);
  const touches = ['organisation', organisation.id, 'invitations'];
  const path = { organisation_id: organisation.id };
  const invite = useSettingsMutation(touches, async () => {
    const body = { role, days: 7, ...(email !== '' && { email }) };
    const made = await dataOf(api.POST('/api/organisations/{organisation_id}/invitations', { params: { path }, body }));
    setLink(`${location.origin}/invitation#${made.token}`);
    setEmail('');
  });
  const revoke = useSettingsMutation(touches, (invitationId: string) =>
    api.DELETE('/api/organisations/{organisation_id}/invitations/{invitation_id}', {
      params: { path: { ...path, invitation_id: invitationId } },
    }),
  );
  return (
    <>
      <form
        className={styles.line}
        onSubmit={(event) => {
          event.preventDefault();
          invite.mutate(undefined);
        }}>
        <label className={styles.grows}>
          <span>{t('settings.invitations.email')}</span>
          <input type="email" value={email} maxLength={320} onChange={(event) => setEmail(event.target.value)} />
        </label>
        <label>
          <span>{t('settings.invitations.role')}</span>
          <select value={role} onChange={(event) => setRole(event.target.value as MembershipRole)}>
            {ROLES.map((one) => (
              <option key={one} value={one}>
                {t(`settings.roles.${one}Hint`)}
              </option>
            ))}
          </select>
        </label>
        <Button kind="main" type="submit" disabled={invite.isPending}>
          {t('settings.invitations.create')}
        </Button>
      </form>
      {link !== null && (
        <OneTimeSecret
          hint={t('settings.invitations.created')}
          label={t('settings.invitations.link')}
          secret={link}
          onDone={() => setLink(null)}
        />
      )}
      {invitations.isError && <ErrorNotice error={invitations.error} onRetry={() => void invitations.refetch()} />}
      {(invitations.data?.items.length ?? 0) > 0 && (
        <table className={styles.table}>
          <thead>
            <tr>
              <th>{t('settings.invitations.for')}</th>
              <th>{t('settings.invitations.role')}</th>
              <th>{t('settings.invitations.status')}</th>
              <th>
                <span className="sr-only">{t('common.actions')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {invitations.data?.items.map((one) => (
              <tr key={one.id}>
                <td className="truncate">
                  {one.email === null ? t('settings.invitations.anyone') : visibleText(one.email)}
                </td>
                <td>{t(`settings.roles.${one.role}`)}</td>
                <td title={formatTime(one.expires_at)}>{statusText(one)}</td>
                <td className={styles.actions}>
                  {isPending(one) && (
                    <Confirm
                      label={t('settings.invitations.revoke')}
                      question={t('settings.invitations.revokeQuestion')}
                      onConfirm={() => revoke.mutate(one.id)}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <ListLimitNotice list={invitations.data} />
    </>
  );
}

function isPending(one: Invitation): boolean {
  return one.accepted_at === null && one.revoked_at === null && Date.parse(one.expires_at) > Date.now();
}

function statusText(one: Invitation): string {
  if (one.accepted_at !== null) return t('settings.invitations.accepted', { age: formatAge(one.accepted_at) });
  if (one.revoked_at !== null) return t('settings.invitations.revoked', { age: formatAge(one.revoked_at) });
  return isPending(one)
    ? t('settings.invitations.pending', { age: formatAge(one.created_at) })
    : t('settings.invitations.expired');
}
