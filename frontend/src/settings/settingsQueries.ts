/** What the settings show, as the service has it. Each key begins with the organisation that it is of. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';

/** So many are shown of a list. More have a line that says so. */
export const MOST = 200;

const of = (organisationId: string) => ({ path: { organisation_id: organisationId }, query: { limit: MOST } });

export const membersQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'members'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/organisations/{organisation_id}/members', { params: of(organisationId), signal })),
  });

export const invitationsQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'invitations'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/organisations/{organisation_id}/invitations', { params: of(organisationId), signal })),
  });

export const keysQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'keys'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/keys', { params: { query: { limit: MOST } }, signal })),
  });

export const usageQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'usage'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/usage', { signal })),
  });
