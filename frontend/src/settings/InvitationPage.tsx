/** The page of an invitation link: which organisation, with which role; accept it to join. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { MailX, UserPlus } from 'lucide-react';
import { api } from '../api/client';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { errorMessage, ErrorNotice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { refresh } from '../api/queryKeys';

export function InvitationPage() {
  // The token stays in the address until it is accepted, so that it survives signing in.
  const { hash } = useLocation();
  const token = /^(fmi_\w{1,190})$/.exec(hash)?.[1] ?? '';
  const navigate = useNavigate();
  const queries = useQueryClient();
  const offer = useQuery({
    queryKey: ['invitation', token],
    queryFn: () => api.post('/api/invitations/read', { body: { token } }),
    enabled: token !== '',
    retry: false,
  });
  const accept = useMutation({
    mutationFn: async () => api.post('/api/invitations/accept', { body: { token } }),
    onSuccess: async (joined) => {
      await refresh(queries, 'me');
      await navigate({ to: '/documents', replace: true });
      session.selectOrganisation(joined.id);
      setTimeout(() => toast(t('settings.invitations.joined', { name: visibleText(joined.name) })), 200); // after the remount for the new organisation
    },
  });
  if (token === '' || offer.isError)
    return (
      <EmptyState
        icon={MailX}
        title={t('settings.invitations.invalid')}
        text={offer.isError ? errorMessage(offer.error) : t('settings.invitations.invalidHint')}
      />
    );
  if (offer.data === undefined) return <Loading />;
  const { organisation, role, expires_at: until } = offer.data;
  return (
    <EmptyState
      icon={UserPlus}
      title={t('settings.invitations.joinNamed', { name: visibleText(organisation) })}
      text={t('settings.invitations.offer', {
        role: t(`settings.roles.${role}`),
        can: t(`settings.roles.${role}Hint`),
        time: formatTime(until),
      })}>
      <p className="text-xs text-muted-foreground">{t('settings.invitations.joinHint')}</p>
      {accept.isError && <ErrorNotice error={accept.error} />}
      <Button kind="main" size="md" disabled={accept.isPending} onClick={() => accept.mutate()}>
        {t('common.accept')}
      </Button>
    </EmptyState>
  );
}
