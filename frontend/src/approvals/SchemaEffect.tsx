/** What a changed schema would do to what was extracted by its other versions, before it is approved. */

import { useQuery } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import { count, plain } from '../shared/format';
import type { Waiting } from './ApprovalCard';
import styles from './Approvals.module.css';

const NAMED = 5;

export function SchemaEffect({ runId, call }: { runId: string; call: Waiting }) {
  const { schema, schema_revid: named } = call.input;
  const { data } = useQuery({
    queryKey: ['schema effect', call.call_id],
    queryFn: async ({ signal }) => {
      const revid = typeof named === 'string' ? named : await revidOfConversation(runId, signal);
      if (revid === undefined) return null;
      const version = await answer(api.GET('/api/schema_versions/{schema_revid}', { params: { path: { schema_revid: revid } }, signal }));
      const body = { schema, limit: NAMED } as never;
      return answer(api.POST('/api/schemas/{schema_id}/changes', { params: { path: { schema_id: version.id } }, body, signal }));
    },
    // A schema that cannot be used is refused where it is approved.
    enabled: typeof schema === 'object',
    retry: false,
  });
  if (data?.summary == null || data.summary.extractions === 0) return null;
  return (
    <details className={styles.effect}>
      <summary>{count(data.summary.extractions, 'extraction')} would follow an older version of it</summary>
      <ul>
        {data.items.map((one) => (
          <li key={one.extraction_id}>
            <b>{plain(one.filename)}</b>: {count(one.counts.carries ?? 0, 'value')} would stay
            {one.read_again.length > 0 && <>, {plain(one.read_again.slice(0, NAMED).join(', '))} would be read again</>}
            {one.conflicts.length > 0 && <>, {plain(one.conflicts.slice(0, NAMED).map(({ path }) => path).join(', '))} would need a person</>}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The version that a call means which names none. */
async function revidOfConversation(runId: string, signal: AbortSignal): Promise<string | undefined> {
  const run = await answer(api.GET('/api/runs/{run_id}', { params: { path: { run_id: runId } }, signal }));
  if (run.thread_id === null) return undefined;
  const params = { path: { thread_id: run.thread_id }, query: { limit: 1 } };
  const { working_state: state } = await answer(api.GET('/api/threads/{thread_id}', { params, signal }));
  return typeof state.schema_revid === 'string' ? state.schema_revid : undefined;
}
