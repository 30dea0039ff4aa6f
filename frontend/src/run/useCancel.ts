/** Cancels a run and loads again what it affects. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { cancelRun } from '../api/runs';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { refresh } from '../api/queryKeys';

export function useCancel(runId: string, onCancelled: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => cancelRun(runId),
    onSuccess: () => {
      onCancelled();
      void refresh(queries, 'runs', 'documents', 'document', 'extractions');
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
}
