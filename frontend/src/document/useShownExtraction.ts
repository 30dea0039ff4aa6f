/** The extraction that a document's page shows, as it is stored now, and what its schema says against it. */

import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { ApiError } from '../api/client';
import type { RuleReading } from '../api/types';
import { isRunning, type RunState } from '../runs/runReducer';
import { extractionQuery, extractionsQuery, problemsQuery, readingsQuery } from './documentPageQueries';

const NO_READINGS: readonly RuleReading[] = [];

/** `wanted`: the one that the address names; else that of a run at work, else the document's current one (`current`;
 * undefined: not known yet), else the newest. `isAsked`: the current one is asked for again, as when a run has ended. */
export function useShownExtraction(documentId: string, wanted: string | undefined, run: RunState, current: string | null | undefined, isAsked: boolean) {
  const all = useQuery(extractionsQuery(documentId));
  const newest = all.data?.[0]?.id;
  const hasJustEnded = run.phase === 'complete' && isAsked && (newest === run.extractionId || !all.data?.some((one) => one.id === run.extractionId));
  const ofRun = isRunning(run) || run.approval !== null || hasJustEnded ? run.extractionId : null;
  const usual = ofRun ?? current ?? (current === null ? newest : null) ?? null;
  const id = wanted ?? usual;
  const extraction = useQuery({ ...extractionQuery(id ?? ''), enabled: id !== null });
  // An address may name an extraction of another document: its places are no places of this one.
  const isAnothers = extraction.data !== undefined && extraction.data.document_id !== documentId;
  const stored = isAnothers ? undefined : extraction.data;

  // The run has told of a newer version than is shown. While that is loaded, still newer ones do not ask again.
  const { isFetching, refetch } = extraction;
  const isBehind = stored !== undefined && run.extractionId === id && run.version !== null && stored.version < run.version;
  useEffect(() => {
    if (isBehind && !isFetching) void refetch();
  }, [isBehind, isFetching, refetch]);

  const problems = useQuery({
    ...problemsQuery(id ?? '', stored?.version ?? 0),
    enabled: stored?.valid === false,
  });
  const errors = stored?.valid === false && problems.data?.version === stored.version ? problems.data.errors : undefined;
  const breaksRule = errors?.some((one) => one.about.length > 0) === true;
  const { data: readings = NO_READINGS } = useQuery({ ...readingsQuery(id ?? '', stored?.version ?? 0), enabled: breaksRule });
  const error = isAnothers ? new ApiError(404, undefined, 'This document has no such extraction.') : extraction.error;
  return { all: all.data, usual, extraction: stored, error, errors, readings };
}
