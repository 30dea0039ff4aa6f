/** The values of the shown extraction that wait for approval, with their evidence. */

import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Preview } from '../fields/fieldTree';
import { proposedFieldsQuery, waitingQuery } from '../run/approvalQueries';
import type { ProposedEvidence } from './pendingCall';

const NOTHING: ReadonlyMap<string, Preview> = new Map();

export function useProposedFields(documentId: string, extractionId: string | undefined): ReadonlyMap<string, Preview> {
  const waiting = useQuery(waitingQuery);
  const run = waiting.data?.items.find(
    (one) =>
      one.document_id === documentId && one.waits_for !== null && (one.extraction_id ?? extractionId) === extractionId,
  );
  const call = run?.waits_for ?? undefined;
  const { data: proposed } = useQuery({
    ...proposedFieldsQuery(run?.id ?? '', call?.call_id ?? ''),
    enabled: call !== undefined,
  });
  return useMemo(() => {
    if (call === undefined || proposed === undefined) return NOTHING;
    const evidence = proposed.evidence as ProposedEvidence;
    const written = call.changes.filter((one) => one.removed !== true && evidence[one.path] !== undefined);
    return new Map(
      written.map((one) => [
        one.path,
        {
          callId: call.call_id,
          value: one.new,
          waits: { evidence: evidence[one.path]!, confidence: proposed.confidence_scores[one.path] },
        },
      ]),
    );
    // Polling replaces the object, not the call.
  }, [call?.call_id, proposed]);
}
