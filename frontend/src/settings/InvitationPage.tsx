/** Where the link of an invitation leads: whoever is signed in accepts it, or leaves it. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { dataOf, api } from '../api/client';
import { session } from '../session/session';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { EmptyState, ErrorNotice } from '../shared/Notice';
import { toast } from '../shared/Toasts';

export function InvitationPage() {
  // It stays in the address until it was accepted: whoever is not signed in yet comes back to it.
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
      setTimeout(() => toast(`You are in “${visibleText(joined.name)}” now.`), 200); // when all is drawn anew for it
    },
  });
  if (token === null) return <EmptyState title="This is no invitation">Open the whole link that was sent to you.</EmptyState>;
  return (
    <EmptyState title="You are invited to an organisation">
      <p>Its members see what you do there, and you see what they do.</p>
      {accept.isError && <ErrorNotice error={accept.error} />}
      <Button kind="main" disabled={accept.isPending} onClick={() => accept.mutate()}>
        Accept
      </Button>
    </EmptyState>
  );
}
