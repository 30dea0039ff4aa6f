/** The address of an area, changed by the area itself. */

import { useMatch, useRouter } from '@tanstack/react-router';
import { useCallback } from 'react';

/** A function that changes what the address says of this area (`documentRoute.useMatch().pathname` and the like stays).
 * Nothing happens once somebody is on the way elsewhere: what comes later than they (a timer, an answer) neither brings
 * them back nor ends up in the address that they went to. */
export function useUpdateSearch<Said extends object>(): (change: (said: Said) => Said, how?: { replace?: boolean }) => void {
  const router = useRouter();
  const own = useMatch({ strict: false, select: (match) => match.pathname });
  return useCallback(
    (change, { replace = true } = {}) => {
      // The address is the next one at once; what somebody leaves is shown until where they go is loaded.
      if (router.history.location.pathname !== own) return;
      void router.navigate({ to: '.', search: ((said: Said) => change(said)) as never, replace });
    },
    [router, own],
  );
}
