/** What the service says before anybody signs in. */

import { queryOptions } from '@tanstack/react-query';
import { answer, api } from '../api/client';

export const configQuery = queryOptions({
  queryKey: ['config'],
  queryFn: () => answer(api.GET('/api/config')),
  staleTime: Infinity,
});

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: () => answer(api.GET('/api/me')),
  staleTime: 60_000,
});
