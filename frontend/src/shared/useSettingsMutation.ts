/** A change of the settings: invalidates queries, and shows errors as toasts. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { type QueryKey, refresh } from '../api/queryKeys';

/** `touches`: the prefix of the query keys to invalidate. */
export function useSettingsMutation<Input, Output>(touches: QueryKey, change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => refresh(queries, touches),
    onError: (error) => {
      toast(errorMessage(error), { urgent: true });
      void refresh(queries, touches);
    },
  });
}
