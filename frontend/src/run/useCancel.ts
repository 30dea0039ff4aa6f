/** Cancels a run and loads again what it affects. */

import { cancelRun } from '../api/runs';
import { useChange } from '../shared/useChange';

export function useCancel(runId: string, onCancelled: () => void) {
  return useChange(['runs', 'documents', 'document', 'extractions'], () => cancelRun(runId), onCancelled);
}
