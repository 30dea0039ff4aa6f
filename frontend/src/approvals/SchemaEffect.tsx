/** What a changed schema means for the extractions of its older versions, before it is approved. */

import { useQuery } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import { count, visibleText } from '../shared/format';
import type { PendingCall } from './pendingCall';
import styles from './Approvals.module.css';

export function SchemaEffect({ runId, call }: { runId: string; call: PendingCall }) {
  const { schema, schema_revid: named } = call.input;
  const { data } = useQuery({
    queryKey: ['schema effect', call.call_id],
    queryFn: async ({ signal }) => {
      const revid = typeof named === 'string' ? named : await revidOfConversation(runId, signal);
      if (revid === undefined) return null;
      const version = await dataOf(api.GET('/api/schema_versions/{schema_revid}', { params: { path: { schema_revid: revid } }, signal }));
      const body = { schema } as never;
      return dataOf(api.POST('/api/schemas/{schema_id}/changes', { params: { path: { schema_id: version.id } }, body, signal }));
    },
    // A schema that cannot be used is refused where it is approved.
    enabled: typeof schema === 'object',
    retry: false,
  });
  if (data == null || data.extractions === 0) return null;
  return (
    <details className={styles.effect}>
      <summary>{count(data.extractions, 'extraction')} would follow an older version of it</summary>
      <p>
        To bring them to this version, {count(data.read_again, 'extraction')} would be read again
        {data.estimated_cost_usd !== null && data.read_again > 0 && <>, for about ${data.estimated_cost_usd.toFixed(2)}</>}.
      </p>
      <ul>
        {data.versions.filter(({ extractions }) => extractions > 0).map((one) => (
          <li key={one.schema_revid}>
            <b>Since version {one.number}</b>
            {one.added.length > 0 && <>, added: {visibleText(one.added.join(', '))}</>}
            {one.changed.length > 0 && <>, changed: {visibleText(one.changed.join(', '))}</>}
            {one.removed.length > 0 && <>, removed: {visibleText(one.removed.join(', '))}</>}
            {one.everything && <>, concerns all fields</>}
            {one.rules && <>, other rules</>}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The version that a call means which names none. */
async function revidOfConversation(runId: string, signal: AbortSignal): Promise<string | undefined> {
  const run = await dataOf(api.GET('/api/runs/{run_id}', { params: { path: { run_id: runId } }, signal }));
  if (run.thread_id === null) return undefined;
  const params = { path: { thread_id: run.thread_id }, query: { limit: 1 } };
  const { working_state: state } = await dataOf(api.GET('/api/threads/{thread_id}', { params, signal }));
  return typeof state.schema_revid === 'string' ? state.schema_revid : undefined;
}
