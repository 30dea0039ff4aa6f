/** Deciding a call that waits: whether the person may, and sending the decision. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { decideCall } from '../api/runs';
import { waitingRunQuery } from '../run/approvalQueries';
import { refresh } from '../api/queryKeys';

export type CallDecision = Parameters<typeof decideCall>[2];

export function useDecideCall(runId: string, callId: string, onDecided: () => void) {
  const queries = useQueryClient();
  const { data: run } = useQuery(waitingRunQuery(runId));
  const decide = useMutation({
    mutationFn: (decision: CallDecision) => decideCall(runId, callId, decision),
    onSuccess: async () => {
      onDecided();
      await refresh(queries, 'runs');
    },
  });
  const refusal = run?.decision_refusal ?? null;
  return {
    documentId: run?.document_id ?? null,
    refusal,
    isOff: run === undefined || decide.isPending || refusal !== null,
    error: decide.error,
    decide: decide.mutate,
  };
}
