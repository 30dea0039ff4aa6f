/** What a run has cost so far, while it is at work and after. Nothing where the model's price is not known. */

import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import { dollars } from '../shared/format';
import { isRunning, type RunState } from './runReducer';

const EVERY_MS = 2_000;

export function RunCost({ runId, state }: { runId: string; state: RunState }) {
  const { data } = useQuery({
    // Asked once more at each turn of the run: what it waits or ends with has cost something, too.
    queryKey: ['run cost', runId, state.phase],
    queryFn: async ({ signal }) => (await dataOf(api.GET('/api/runs/{run_id}', { params: { path: { run_id: runId } }, signal }))).cost_usd,
    enabled: state.phase !== 'complete',
    refetchInterval: isRunning(state) && EVERY_MS,
    placeholderData: keepPreviousData,
  });
  const cost = state.phase === 'complete' ? state.costUsd : data;
  if (!cost) return null;
  return (
    <span className="muted" title="Cost so far">
      {dollars(cost)}
    </span>
  );
}
