/** Queries of the settings. Each key starts with the organisation. */

import { queryOptions } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';

/** The number of list items that are shown. */
export const LIMIT = 200;

const of = (organisationId: string) => ({ path: { organisation_id: organisationId }, query: { limit: LIMIT } });

export const membersQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'members'],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/api/organisations/{organisation_id}/members', { params: of(organisationId), signal })),
  });

export const invitationsQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'invitations'],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/api/organisations/{organisation_id}/invitations', { params: of(organisationId), signal })),
  });

export const keysQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'keys'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/keys', { params: { query: { limit: LIMIT } }, signal })),
  });

/** The tools of an agent: those that write can need approval. */
export const agentToolsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['tools of an agent', agent],
    queryFn: ({ signal }) => dataOf(api.GET('/api/agent/tools', { params: { query: { agent } }, signal })),
  });
