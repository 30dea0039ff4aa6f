/** A person's changes of fields. What the service answers is what stands then. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { answer, api, Refused } from '../../api/client';
import type { ChangedExtraction, Extraction } from '../../api/types';
import { sentenceOf } from '../../shared/Notice';
import { tell } from '../../shared/Toasts';

export type FieldChange =
  | { path: string; value: unknown }
  | { path: string; unlock: true }
  | { path: string; remove: true }
  | { path: string; accept: boolean };

export function useFieldChanges(extraction: Extraction | undefined) {
  const queries = useQueryClient();

  function asked(change: FieldChange) {
    const current = queries.getQueryData<Extraction>(['extraction', extraction!.id]) ?? extraction!;
    const header = { 'if-match': `"${current.version}"` };
    const path = { extraction_id: current.id };
    if ('unlock' in change) {
      return answer(api.DELETE('/api/extractions/{extraction_id}/locks', { params: { path, header, query: { path: change.path } } }));
    }
    if ('remove' in change) {
      return answer(api.DELETE('/api/extractions/{extraction_id}/fields', { params: { path, header, query: { path: change.path } } }));
    }
    if ('accept' in change) {
      const those = current.proposals.filter((one) => one.path === change.path);
      const body = { decisions: those.map((one) => ({ id: one.id, accepted: change.accept })) };
      return answer(api.POST('/api/extractions/{extraction_id}/proposals', { params: { path, header }, body }));
    }
    const body = { path: change.path, value: change.value };
    return answer(api.PATCH('/api/extractions/{extraction_id}/fields', { params: { path, header }, body }));
  }

  return useMutation({
    // One after the other: each has the version of the one before.
    scope: { id: `fields of ${extraction?.id ?? ''}` },
    mutationFn: async (change: FieldChange): Promise<ChangedExtraction> => (await asked(change)) as ChangedExtraction,
    onSuccess: (changed) => {
      const { problems, errors, ...stored } = changed;
      queries.setQueryData(['problems', changed.id, changed.version], { version: changed.version, problems, errors });
      queries.setQueryData(['extraction', changed.id], stored);
      void queries.invalidateQueries({ queryKey: ['extractions'] });
    },
    onError: (error) => {
      const moved = error instanceof Refused && error.status === 409;
      tell(moved ? 'Something changed meanwhile: look again, then change it.' : sentenceOf(error), { urgent: true });
      if (moved) void queries.invalidateQueries({ queryKey: ['extraction', extraction?.id] });
    },
  });
}
