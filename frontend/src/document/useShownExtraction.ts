/** The extraction that the document page shows, with its errors. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { ApiError } from '../api/client';
import type { RuleFix } from '../api/types';
import { isRunning, type RunState } from '../run/runReducer';
import { t } from '../shared/i18n';
import { extractionQuery, extractionsQuery, problemsQuery, ruleFixesQuery } from '../fields/extractionQueries';
import { refresh } from '../api/queryKeys';

const NO_RULE_FIXES: readonly RuleFix[] = [];

/** Return the extraction in the address (`wanted`), else that of an active run, else the document's current one, else the
 * newest. `current` undefined: not loaded yet. `isReloading`: the document is being loaded again, as after a run. */
export function useShownExtraction(
  documentId: string,
  wanted: string | undefined,
  run: RunState,
  current: string | null | undefined,
  isReloading: boolean,
) {
  const all = useQuery(extractionsQuery(documentId));
  const newest = all.data?.[0]?.id;
  const hasJustEnded =
    run.phase === 'complete' &&
    isReloading &&
    (newest === run.extractionId || !all.data?.some((one) => one.id === run.extractionId));
  const ofRun = isRunning(run) || run.approval !== null || hasJustEnded ? run.extractionId : null;
  const usual = ofRun ?? current ?? (current === null ? newest : null) ?? null;
  const id = wanted ?? usual;
  const extraction = useQuery({ ...extractionQuery(id ?? ''), enabled: id !== null });
  // The address may have an extraction of another document.
  const isOfOther = extraction.data !== undefined && extraction.data.document_id !== documentId;
  const stored = isOfOther ? undefined : extraction.data;

  // The run has reported a newer version: load it, unless that is under way.
  const { isFetching, refetch } = extraction;
  const isBehind =
    stored !== undefined && run.extractionId === id && run.version !== null && stored.version < run.version;
  useEffect(() => {
    if (isBehind && !isFetching) void refetch();
  }, [isBehind, isFetching, refetch]);

  // Someone else has changed it: so has the status of the document.
  const queries = useQueryClient();
  const updated = stored?.updated_at;
  const before = useRef(updated);
  useEffect(() => {
    if (before.current !== undefined && before.current !== updated)
      void refresh(queries, ['document', documentId], 'inbox');
    before.current = updated;
  }, [queries, documentId, updated]);

  const problems = useQuery({ ...problemsQuery(id ?? '', stored?.version ?? 0), enabled: stored?.valid === false });
  const errors =
    stored?.valid === false && problems.data?.version === stored.version ? problems.data.errors : undefined;
  const breaksRule = errors?.some((one) => one.about.length > 0) === true;
  const { data: ruleFixes = NO_RULE_FIXES } = useQuery({
    ...ruleFixesQuery(id ?? '', stored?.version ?? 0),
    enabled: breaksRule,
  });
  const error = isOfOther ? new ApiError(404, undefined, t('document.extractionNotFound')) : extraction.error;
  return { all: all.data, usual, extraction: stored, error, errors, ruleFixes };
}
