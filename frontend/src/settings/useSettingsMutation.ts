/** A change of the settings: what it touches is asked for anew, and what is refused is told. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';

/** `touches`: how the keys of what is asked for anew begin. */
export function useSettingsMutation<Wish, Answer>(touches: readonly unknown[], ask: (wish: Wish) => Promise<Answer>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: () => queries.invalidateQueries({ queryKey: touches }),
    onError: (error) => {
      toast(errorMessage(error), { urgent: true });
      void queries.invalidateQueries({ queryKey: touches });
    },
  });
}
