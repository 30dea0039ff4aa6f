/** The page of an invitation link: accept it to join the organisation. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { dataOf, api } from '../api/client';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';

export function InvitationPage() {
  // The token stays in the address until it is accepted, so that it survives signing in.
  const { hash } = useLocation();
  const token = /^(fmi_\w{1,190})$/.exec(hash)?.[1] ?? null;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const accept = useMutation({
    mutationFn: async () => dataOf(api.POST('/api/invitations/accept', { body: { token: token ?? '' } })),
    onSuccess: async (joined) => {
      await queries.invalidateQueries({ queryKey: ['me'] });
      await navigate({ to: '/documents', replace: true });
      session.selectOrganisation(joined.id);
      setTimeout(() => toast(t('settings.invitations.joined', { name: visibleText(joined.name) })), 200); // after the remount for the new organisation
    },
  });
  if (token === null)
    return <EmptyState title={t('settings.invitations.invalid')}>{t('settings.invitations.invalidHint')}</EmptyState>;
  return (
    <EmptyState title={t('settings.invitations.join')}>
      <p>{t('settings.invitations.joinHint')}</p>
      {accept.isError && <ErrorNotice error={accept.error} />}
      <Button kind="main" disabled={accept.isPending} onClick={() => accept.mutate()}>
        {t('common.accept')}
      </Button>
    </EmptyState>
  );
}
