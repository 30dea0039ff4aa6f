/** What waits for somebody's decision: calls of your runs, and of others' where you decide these. */

import { queryOptions } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import type { Run } from '../api/types';

export const MOST = 50;

export const waitingQuery = queryOptions({
  queryKey: ['runs', 'waiting'],
  queryFn: async ({ signal }) => {
    const query = { status: 'awaiting_approval' as const, limit: MOST };
    return (await answer(api.GET('/api/runs', { params: { query }, signal }))) as unknown as { items: Run[]; next: string | null };
  },
  refetchInterval: 15_000,
});
