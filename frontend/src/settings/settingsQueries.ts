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

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: ({ signal }) => dataOf(api.GET('/api/webhooks', { signal })),
});

/** What was sent to a webhook, newest first. */
export const deliveriesQuery = (webhookId: string) =>
  queryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries'],
    queryFn: ({ signal }) =>
      dataOf(api.GET('/api/webhooks/{webhook_id}/deliveries', { params: { path: { webhook_id: webhookId } }, signal })),
    refetchInterval: 3000,
  });

/** The tools of an agent: those that write can need approval. */
export const agentToolsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['tools of an agent', agent],
    queryFn: ({ signal }) => dataOf(api.GET('/api/agent/tools', { params: { query: { agent } }, signal })),
  });
