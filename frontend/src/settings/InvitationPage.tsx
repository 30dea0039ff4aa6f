/** Where the link of an invitation leads: whoever is signed in accepts it, or leaves it. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { answer, api } from '../api/client';
import { session } from '../session/session';
import { Button } from '../shared/Button';
import { plain } from '../shared/format';
import { Empty, Failure } from '../shared/Notice';
import { tell } from '../shared/Toasts';

export function InvitationPage() {
  // It stays in the address until it was accepted: whoever is not signed in yet comes back to it.
  const { hash } = useLocation();
  const token = /^(fmi_\w{1,190})$/.exec(hash)?.[1] ?? null;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const accept = useMutation({
    mutationFn: async () => answer(api.POST('/api/invitations/accept', { body: { token: token ?? '' } })),
    onSuccess: async (joined) => {
      await queries.invalidateQueries({ queryKey: ['me'] });
      await navigate({ to: '/documents', replace: true });
      session.choose(joined.id);
      setTimeout(() => tell(`You are in “${plain(joined.name)}” now.`), 200); // when all is drawn anew for it
    },
  });
  if (token === null) return <Empty title="This is no invitation">Open the whole link that was sent to you.</Empty>;
  return (
    <Empty title="You are invited to an organisation">
      <p>Its members see what you do there, and you see what they do.</p>
      {accept.isError && <Failure error={accept.error} />}
      <Button kind="main" disabled={accept.isPending} onClick={() => accept.mutate()}>
        Accept
      </Button>
    </Empty>
  );
}
