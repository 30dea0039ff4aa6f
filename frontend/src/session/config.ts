/** The public configuration, and the signed-in user. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';

export const configQuery = queryOptions({
  queryKey: ['config'],
  queryFn: () => api.get('/api/config'),
  staleTime: Infinity,
});

export const meQuery = queryOptions({ queryKey: ['me'], queryFn: () => api.get('/api/me'), staleTime: 60_000 });
