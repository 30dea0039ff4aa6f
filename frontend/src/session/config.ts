/** The public configuration, and the signed-in user. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';

export const configQuery = queryOptions({
  queryKey: ['config'],
  queryFn: () => dataOf(api.GET('/api/config')),
  staleTime: Infinity,
});

export const meQuery = queryOptions({ queryKey: ['me'], queryFn: () => dataOf(api.GET('/api/me')), staleTime: 60_000 });
