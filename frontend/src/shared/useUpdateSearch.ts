/** Changing the search parameters of the area that is shown. */

import { useMatch, useRouter } from '@tanstack/react-router';
import { useCallback } from 'react';
import { basePath } from './serviceAddress';

/** Return a function that updates the search parameters of the current address. It does nothing once the person has
 * navigated away: a late timer or response must not bring them back, nor change the address they went to. */
export function useUpdateSearch<Search extends object>(): (
  change: (params: Search) => Search,
  how?: { replace?: boolean },
) => void {
  const router = useRouter();
  const own = useMatch({ strict: false, select: (match) => match.pathname });
  return useCallback(
    (change, { replace = true } = {}) => {
      // The address changes at once; the old area stays mounted until the next one is loaded.
      if (router.history.location.pathname !== basePath + own) return;
      void router.navigate({ to: '.', search: ((params: Search) => change(params)) as never, replace });
    },
    [router, own],
  );
}
