/** Which prompts and how many extractions use a schema, shown before its change is approved. */

import { useQuery } from '@tanstack/react-query';
import { api } from '../api/client';
import type { components } from '../api/description';
import { formatEstimate, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { PendingCall } from './pendingCall';

export function SchemaEffect({ runId, call }: { runId: string; call: PendingCall }) {
  const { schema, schema_revid: named } = call.input;
  const { data } = useQuery({
    queryKey: ['schema effect', call.call_id],
    queryFn: async ({ signal }) => {
      const revid = typeof named === 'string' ? named : await revidOfConversation(runId, signal);
      if (revid === undefined) return null;
      const version = await api.get('/api/schema_versions/{schema_revid}', { path: { schema_revid: revid }, signal });
      const body = { schema } as never;
      return api.post('/api/schemas/{schema_id}/changes', { path: { schema_id: version.id }, body, signal });
    },
    // An invalid schema is refused when it is approved.
    enabled: typeof schema === 'object',
    retry: false,
  });
  if (data == null) return null;
  return (
    <>
      {data.prompts.length > 0 && (
        <ul>
          {data.prompts.map((one) => (
            <li key={one.prompt_id}>
              {one.schema_version === null
                ? t('approvals.effect.promptFollows', { name: visibleText(one.name) })
                : t('approvals.effect.promptPinned', { name: visibleText(one.name), version: one.schema_version })}
            </li>
          ))}
        </ul>
      )}
      {data.extractions > 0 && <EffectOnExtractions data={data} />}
    </>
  );
}

function EffectOnExtractions({ data }: { data: components['schemas']['SchemaChanges'] }) {
  return (
    <details>
      <summary>{t('approvals.effect.title', { count: data.extractions })}</summary>
      <p>
        {data.estimated_cost_usd === null || data.read_again === 0
          ? t('approvals.effect.reread', { count: data.read_again })
          : t('approvals.effect.rereadCost', { count: data.read_again, cost: formatEstimate(data.estimated_cost_usd) })}
      </p>
      <ul>
        {data.versions
          .filter(({ extractions }) => extractions > 0)
          .map((one) => (
            <li key={one.schema_revid}>
              <b>{t('approvals.effect.since', { version: one.number })}</b>
              {(['added', 'changed', 'removed'] as const).map(
                (kind) =>
                  one[kind].length > 0 &&
                  `, ${t(`approvals.effect.${kind}`, { fields: visibleText(one[kind].join(', ')) })}`,
              )}
              {one.everything && `, ${t('approvals.effect.everything')}`}
              {one.rules && `, ${t('approvals.effect.rules')}`}
            </li>
          ))}
      </ul>
    </details>
  );
}

/** Return the schema version of the conversation, which a call without one refers to. */
async function revidOfConversation(runId: string, signal: AbortSignal): Promise<string | undefined> {
  const run = await api.get('/api/runs/{run_id}', { path: { run_id: runId }, signal });
  if (run.thread_id === null) return undefined;
  const params = { path: { thread_id: run.thread_id }, query: { limit: 1 } };
  const { working_state: state } = await api.get('/api/threads/{thread_id}', { ...params, signal });
  return typeof state.schema_revid === 'string' ? state.schema_revid : undefined;
}
