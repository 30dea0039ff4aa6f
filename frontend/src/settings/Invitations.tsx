/** Letting people in: a link for each, which they accept themselves. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { Invitation, MembershipRole, Organisation } from '../api/types';
import { Button } from '../shared/Button';
import { ago, atMoment, visibleText } from '../shared/format';
import { ErrorNotice } from '../shared/Notice';
import { Confirm } from '../shared/Confirm';
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
        }}
      >
        <label className={styles.grows}>
          <span>Email (left out: whoever has the link)</span>
          <input type="email" value={email} maxLength={320} onChange={(event) => setEmail(event.target.value)} />
        </label>
        <label>
          <span>Role</span>
          <select value={role} onChange={(event) => setRole(event.target.value as MembershipRole)}>
            {ROLES.map(([one, words]) => (
              <option key={one} value={one}>
                {one}: {words}
              </option>
            ))}
          </select>
        </label>
        <Button kind="main" type="submit" disabled={invite.isPending}>
          Make a link
        </Button>
      </form>
      {link !== null && <OneTimeSecret words="Send them this link: it holds for 7 days, for one person." secret={link} onDone={() => setLink(null)} />}
      {invitations.isError && <ErrorNotice error={invitations.error} onRetry={() => void invitations.refetch()} />}
      {(invitations.data?.items.length ?? 0) > 0 && (
        <table className={styles.table}>
          <thead>
            <tr>
              <th>For</th>
              <th>Role</th>
              <th>Stands</th>
              <th>
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {invitations.data?.items.map((one) => (
              <tr key={one.id}>
                <td className="truncate">{visibleText(one.email ?? 'whoever has the link')}</td>
                <td>{one.role}</td>
                <td title={atMoment(one.expires_at)}>{status(one)}</td>
                <td className={styles.actions}>
                  {isOpen(one) && <Confirm words="Take back" question="Take this invitation back?" onSure={() => revoke.mutate(one.id)} />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <ListLimitNotice of={invitations.data} />
    </>
  );
}

function isOpen(one: Invitation): boolean {
  return one.accepted_at === null && one.revoked_at === null && Date.parse(one.expires_at) > Date.now();
}

function status(one: Invitation): string {
  if (one.accepted_at !== null) return `accepted ${ago(one.accepted_at)}`;
  if (one.revoked_at !== null) return `taken back ${ago(one.revoked_at)}`;
  return isOpen(one) ? `open, made ${ago(one.created_at)}` : 'over';
}
