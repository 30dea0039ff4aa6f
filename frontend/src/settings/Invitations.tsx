/** Invitations: create a link per person, see their status, revoke them. */

import { useQuery } from '@tanstack/react-query';
import { Ban } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { Invitation, MembershipRole, Organisation } from '../api/types';
import { Form } from '../components/ui/Form';
import { formatAge, formatShortDay, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { serviceAddress } from '../shared/serviceAddress';
import { cn } from '../components/ui/cn';
import { DialogActions } from '../components/ui/Dialog';
import { RowMenu } from './RowMenu';
import { roleOptions } from './Members';
import { SettingsList } from './SettingsTable';
import { AddSecret } from './OneTimeSecret';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { Td, Th, Tr } from '../components/ui/Table';
import { invitationsQuery } from './settingsQueries';
import { useChange } from '../shared/useChange';

/** The button that creates an invitation link. */
export function Invite({ organisation }: { organisation: Organisation }) {
  return (
    <AddSecret
      title={t('settings.invitations.invite')}
      hint={t('settings.invitations.created')}
      label={t('settings.invitations.link')}
      form={(onMade, onClose) => <NewInvitation organisationId={organisation.id} onMade={onMade} onClose={onClose} />}
    />
  );
}

export function Invitations({ organisation }: { organisation: Organisation }) {
  const invitations = useQuery(invitationsQuery(organisation.id));
  const touches = ['organisation', organisation.id, 'invitations'] as const;
  const path = { organisation_id: organisation.id };
  const revoke = useChange([touches], (invitationId: string) =>
    api.delete('/api/organisations/{organisation_id}/invitations/{invitation_id}', {
      path: { ...path, invitation_id: invitationId },
    }),
  );
  if (invitations.data?.items.length === 0) return null;
  return (
    <SettingsList
      title={t('settings.sections.invitations')}
      label={t('settings.sections.invitations')}
      list={invitations}
      heads={
        <>
          <Th>{t('settings.invitations.for')}</Th>
          <Th className="max-sm:hidden">{t('settings.invitations.role')}</Th>
          <Th className="max-sm:hidden">{t('settings.invitations.status')}</Th>
        </>
      }
      row={(one) => (
        <Tr key={one.id} className={cn(!isPending(one) && 'text-muted-foreground')}>
          <Td className="w-full max-w-0 min-w-40 py-1.5">
            <p className="truncate">{one.email === null ? t('settings.invitations.anyone') : visibleText(one.email)}</p>
            <p className="text-xs text-muted-foreground sm:hidden">
              {t(`settings.roles.${one.role}`)} · {statusText(one)}
            </p>
          </Td>
          <Td className="max-sm:hidden">{t(`settings.roles.${one.role}`)}</Td>
          <Td className="whitespace-nowrap max-sm:hidden" title={formatTime(one.expires_at)}>
            {statusText(one)}
          </Td>
          <Td className="text-right">
            {isPending(one) && (
              <RowMenu
                name={one.email === null ? t('settings.invitations.anyone') : visibleText(one.email)}
                icon={Ban}
                action={t('settings.invitations.revoke')}
                question={t('settings.invitations.revokeQuestion')}
                onConfirm={() => revoke.mutate(one.id)}
              />
            )}
          </Td>
        </Tr>
      )}
    />
  );
}

interface NewProps {
  organisationId: string;
  onMade: (made: { secret: string }) => void;
  onClose: () => void;
}

function NewInvitation({ organisationId, onMade, onClose }: NewProps) {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<MembershipRole>('member');
  const invite = useChange([['organisation', organisationId, 'invitations']], async () => {
    const body = { role, days: 7, ...(email !== '' && { email }) };
    const path = { organisation_id: organisationId };
    const made = await api.post('/api/organisations/{organisation_id}/invitations', { path, body });
    onMade({ secret: `${serviceAddress}/invitation#${made.token}` });
  });
  return (
    <Form className="grid gap-3" onSubmit={() => invite.mutate()}>
      <Field label={t('settings.invitations.email')}>
        <Input type="email" value={email} maxLength={320} onValueChange={setEmail} />
      </Field>
      <Field label={t('settings.invitations.role')}>
        <Select value={role} options={roleOptions()} onChange={setRole} />
      </Field>
      <DialogActions label={t('settings.invitations.create')} disabled={invite.isPending} onClose={onClose} />
    </Form>
  );
}

function isPending(one: Invitation): boolean {
  return one.accepted_at === null && one.revoked_at === null && !one.is_expired;
}

function statusText(one: Invitation): string {
  if (one.accepted_at !== null) return t('settings.invitations.accepted', { age: formatAge(one.accepted_at) });
  if (one.revoked_at !== null) return t('settings.invitations.revoked', { age: formatAge(one.revoked_at) });
  return isPending(one)
    ? t('settings.invitations.pending', { day: formatShortDay(one.expires_at) })
    : t('settings.invitations.expired');
}
