/** The cost of a run so far. Renders nothing if the model's price is not known. */

import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api } from '../api/client';
import { formatDollars } from '../shared/format';
import { t } from '../shared/i18n';
import { isRunning, type RunState } from './runReducer';

const EVERY_MS = 2_000;

export function RunCost({ runId, state }: { runId: string; state: RunState }) {
  const { data } = useQuery({
    // The phase is part of the key, so that the cost is loaded again when the run waits or ends.
    queryKey: ['run cost', runId, state.phase],
    queryFn: async ({ signal }) => (await api.get('/api/runs/{run_id}', { path: { run_id: runId }, signal })).cost_usd,
    enabled: state.phase !== 'complete',
    refetchInterval: isRunning(state) && EVERY_MS,
    placeholderData: keepPreviousData,
  });
  const cost = state.phase === 'complete' ? state.costUsd : data;
  if (!cost) return null;
  return (
    <span className="muted" title={t('runs.cost')}>
      {formatDollars(cost)}
    </span>
  );
}
