/** A person's changes of fields. What the service answers is what stands then. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { dataOf, api, ApiError } from '../../api/client';
import type { ChangedExtraction, Extraction } from '../../api/types';
import { extractionQuery } from '../documentPageQueries';
import { storeChanged } from '../storeChanged';
import { visibleText } from '../../shared/format';
import { errorMessage } from '../../shared/Notice';
import { toast } from '../../shared/Toasts';
import { shown } from './fieldValue';
import { pathSteps, valueAt } from './paths';

export type FieldChange =
  /** `was`: what stood there when the change was begun. */
  | { path: string; value: unknown; was: unknown }
  | { path: string; unlock: true }
  | { path: string; remove: true }
  | { path: string; accept: boolean };

/** Somebody else has set this value since the change was begun. */
class Moved extends Error {
  constructor(readonly now: unknown) {
    super();
  }
}

export function useFieldChanges(extraction: Extraction | undefined) {
  const queries = useQueryClient();

  function asked(change: FieldChange) {
    const current = queries.getQueryData<Extraction>(['extraction', extraction!.id]) ?? extraction!;
    const header = { 'if-match': `"${current.version}"` };
    const path = { extraction_id: current.id };
    if ('unlock' in change) {
      return dataOf(api.DELETE('/api/extractions/{extraction_id}/locks', { params: { path, header, query: { path: change.path } } }));
    }
    if ('remove' in change) {
      return dataOf(api.DELETE('/api/extractions/{extraction_id}/fields', { params: { path, header, query: { path: change.path } } }));
    }
    if ('accept' in change) {
      const those = current.proposals.filter((one) => one.path === change.path);
      const body = { decisions: those.map((one) => ({ id: one.id, accepted: change.accept })) };
      return dataOf(api.POST('/api/extractions/{extraction_id}/proposals', { params: { path, header }, body }));
    }
    const body = { path: change.path, value: change.value };
    return dataOf(api.PATCH('/api/extractions/{extraction_id}/fields', { params: { path, header }, body }));
  }

  /** Where others wrote other fields meanwhile, it is asked once more; what somebody wrote here is not written over. */
  async function settled(change: FieldChange) {
    if (!('value' in change)) return asked(change);
    const current = queries.getQueryData<Extraction>(['extraction', extraction!.id]) ?? extraction!;
    stillAsItWas(current, change);
    try {
      return await asked(change);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
      stillAsItWas(await queries.fetchQuery({ ...extractionQuery(current.id), staleTime: 0 }), change);
      return asked(change);
    }
  }

  const mutation = useMutation({
    // One after the other: each has the version of the one before.
    scope: { id: `fields of ${extraction?.id ?? ''}` },
    mutationFn: async (change: FieldChange): Promise<ChangedExtraction> => (await settled(change)) as ChangedExtraction,
    onSuccess: (changed) => {
      storeChanged(queries, changed);
    },
    onError: (error, change) => {
      if (error instanceof Moved && 'value' in change) {
        // What was written is not lost: it is one press away.
        const act = () => mutation.mutate({ ...change, was: error.now });
        const action = { words: `Write ${shown(change.value) || 'nothing'}`, act };
        toast(`“${visibleText(change.path)}” was changed meanwhile: ${shown(error.now) || 'nothing'} stands there now.`, { action, seconds: 30 });
        return;
      }
      const moved = error instanceof ApiError && error.status === 409;
      toast(moved ? 'Something changed meanwhile: look again, then change it.' : errorMessage(error), { urgent: true });
      if (moved) void queries.invalidateQueries({ queryKey: ['extraction', extraction?.id] });
    },
  });
  return mutation;
}

/** Raises Moved. */
function stillAsItWas(current: Extraction, { path, was }: { path: string; was: unknown }): void {
  const now = valueAt(current.extracted_fields, pathSteps(path) ?? []);
  if (JSON.stringify(now) !== JSON.stringify(was)) throw new Moved(now);
}
