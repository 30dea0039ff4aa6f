/** A change of what the service stores. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { type QueryKey, refresh, type Subject } from '../api/queryKeys';

/** Refreshes the queries that the change touches, and shows an error as a toast. */
export function useChange<Output, Input = void>(
  touches: readonly (Subject | QueryKey)[],
  change: (input: Input) => Promise<Output>,
  onSuccess?: (output: Output, input: Input) => unknown,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async (output, input) => {
      await onSuccess?.(output, input);
      await refresh(queries, ...touches);
    },
    onError: (error) => {
      toast(errorMessage(error), { urgent: true });
      void refresh(queries, ...touches);
    },
  });
}
