/** The tables: the shell lists them, before any of them is opened. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';

export const tablesQuery = queryOptions({
  queryKey: ['records', 'tables'],
  queryFn: async ({ signal }) => (await api.get('/api/tables', { signal })).items,
  staleTime: 30_000,
  refetchInterval: 60_000,
});
