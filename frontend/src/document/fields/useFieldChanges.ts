/** Saving a person's changes of fields. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { dataOf, api, ApiError } from '../../api/client';
import type { ChangedExtraction, Extraction } from '../../api/types';
import { extractionQuery } from '../documentPageQueries';
import { storeChanged } from '../storeChanged';
import { t } from '../../shared/i18n';
import { errorMessage } from '../../components/ui/Notice';
import { toast } from '../../components/ui/Toast';
import { displayValue } from './fieldValue';
import { pathLabel } from './labels';
import { pathSteps, valueAt } from './paths';

export type FieldChange =
  /** `was`: the value when editing started. */
  | { path: string; value: unknown; was: unknown }
  | { path: string; confirm: true }
  | { path: string; unlock: true }
  | { path: string; accept: boolean };

/** Someone else has set this value since editing started. */
class ChangedMeanwhile extends Error {
  constructor(readonly now: unknown) {
    super();
  }
}

export function useFieldChanges(extraction: Extraction | undefined) {
  const queries = useQueryClient();

  function send(change: FieldChange) {
    const current = queries.getQueryData<Extraction>(['extraction', extraction!.id]) ?? extraction!;
    const header = { 'if-match': `"${current.version}"` };
    const path = { extraction_id: current.id };
    if ('unlock' in change) {
      return dataOf(
        api.DELETE('/api/extractions/{extraction_id}/locks', {
          params: { path, header, query: { path: change.path } },
        }),
      );
    }
    // Without sending the value: a JavaScript number would keep only about 15 digits.
    if ('confirm' in change) {
      return dataOf(
        api.POST('/api/extractions/{extraction_id}/locks', { params: { path, header, query: { path: change.path } } }),
      );
    }
    if ('accept' in change) {
      const proposals = current.proposals.filter((one) => one.path === change.path);
      const body = { decisions: proposals.map((one) => ({ id: one.id, accepted: change.accept })) };
      return dataOf(api.POST('/api/extractions/{extraction_id}/proposals', { params: { path, header }, body }));
    }
    const body = { path: change.path, value: change.value };
    return dataOf(api.PATCH('/api/extractions/{extraction_id}/fields', { params: { path, header }, body }));
  }

  /** Retry after a version conflict if only other fields were changed. */
  async function save(change: FieldChange) {
    if (!('value' in change)) return send(change);
    const current = queries.getQueryData<Extraction>(['extraction', extraction!.id]) ?? extraction!;
    assertUnchanged(current, change);
    try {
      return await send(change);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
      assertUnchanged(await queries.fetchQuery({ ...extractionQuery(current.id), staleTime: 0 }), change);
      return send(change);
    }
  }

  const mutation = useMutation({
    // In sequence: each needs the version that the previous one returned.
    scope: { id: `fields of ${extraction?.id ?? ''}` },
    mutationFn: async (change: FieldChange): Promise<ChangedExtraction> => (await save(change)) as ChangedExtraction,
    onSuccess: (changed) => {
      storeChanged(queries, changed);
    },
    onError: (error, change) => {
      if (error instanceof ChangedMeanwhile && 'value' in change) {
        // The person's value is not lost: a button saves it.
        const act = () => mutation.mutate({ ...change, was: error.now });
        const action = {
          label: t('fields.useInstead', { value: displayValue(change.value) || t('fields.nothing') }),
          act,
        };
        toast(
          t('fields.changedBySomeone', {
            field: pathLabel(change.path),
            value: displayValue(error.now) || t('fields.nothing'),
          }),
          { action, seconds: 30 },
        );
        return;
      }
      const moved = error instanceof ApiError && error.status === 409;
      toast(moved ? t('fields.justUpdated') : errorMessage(error), { urgent: true });
      if (moved) void queries.invalidateQueries({ queryKey: ['extraction', extraction?.id] });
    },
  });
  return mutation;
}

/** Throw `ChangedMeanwhile` if the value is not the one that was edited. */
function assertUnchanged(current: Extraction, { path, was }: { path: string; was: unknown }): void {
  const now = valueAt(current.extracted_fields, pathSteps(path) ?? []);
  if (JSON.stringify(now) !== JSON.stringify(was)) throw new ChangedMeanwhile(now);
}
