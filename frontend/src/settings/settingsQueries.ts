/** Queries of the settings. Each key starts with the organisation. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import { LIMIT, ofOrganisation } from '../session/people';
import { isoDay, sumCosts } from '../shared/format';

export const invitationsQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'invitations'],
    queryFn: ({ signal }) =>
      api.get('/api/organisations/{organisation_id}/invitations', { ...ofOrganisation(organisationId), signal }),
  });

export const keysQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'keys'],
    queryFn: ({ signal }) => api.get('/api/keys', { query: { limit: LIMIT }, signal }),
  });

/** Tokens and cost of the last twelve months, each as a whole, the newest first. `cost` null: a model's price was not known. */
export const monthsQuery = queryOptions({
  queryKey: ['usage', 'months'],
  queryFn: async ({ signal }) => {
    const now = new Date();
    const since = isoDay(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 11, 1));
    const { items } = await api.get('/api/usage', { query: { since }, signal });
    const months = Map.groupBy(items, ({ day }) => day.slice(0, 7));
    return [...months]
      .toReversed()
      .map(([month, days]) => ({
        month,
        tokens: days.reduce(
          (sum, one) =>
            sum + one.input_tokens + one.output_tokens + one.cache_creation_input_tokens + one.cache_read_input_tokens,
          0,
        ),
        cost: sumCosts(days.map((one) => one.cost_usd)),
      }));
  },
  staleTime: 60_000,
});

export const uploadRulesQuery = (organisationId: string) =>
  queryOptions({
    queryKey: ['organisation', organisationId, 'upload rules'],
    queryFn: ({ signal }) =>
      api.get('/api/organisations/{organisation_id}/upload_rules', {
        path: { organisation_id: organisationId },
        signal,
      }),
  });

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: ({ signal }) => api.get('/api/webhooks', { signal }),
});

export const sourcesQuery = queryOptions({
  queryKey: ['sources'],
  queryFn: ({ signal }) => api.get('/api/sources', { signal }),
  refetchInterval: 3000,
});

/** What was sent to a webhook, newest first. */
export const deliveriesQuery = (webhookId: string) =>
  queryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries'],
    queryFn: ({ signal }) =>
      api.get('/api/webhooks/{webhook_id}/deliveries', { path: { webhook_id: webhookId }, signal }),
    refetchInterval: 3000,
  });

/** The tools of an agent: those that write can need approval. */
export const agentToolsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['tools of an agent', agent],
    queryFn: ({ signal }) => api.get('/api/agent/tools', { query: { agent }, signal }),
  });
