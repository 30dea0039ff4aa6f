/** Where new documents belong, and what happens when the person has said so. */

import { queryOptions } from '@tanstack/react-query';
import { api, ApiError } from '../api/client';
import { startExtraction, startFill } from '../api/runs';
import type { DocumentGroup, StackColumn } from '../api/types';
import { actOnEach } from '../shared/actOnEach';
import { visibleText } from '../shared/format';

/** A table, a stored prompt, a new table (`agent`: the agent chooses its columns), all fields without a table, or
 * nothing. */
export type Target = `stack:${string}` | `schema:${string}` | `prompt:${string}` | 'new' | 'agent' | 'fields' | 'store';

/** What the person chose for a group. */
export interface Placing {
  target: Target;
  name: string;
  /** `name` null: left out. */
  columns: readonly { column: StackColumn; name: string | null }[];
}

export const groupsQuery = (documentIds: readonly string[]) =>
  queryOptions({
    queryKey: ['documents', 'groups', documentIds],
    queryFn: ({ signal }) => api.post('/api/documents/groups', { body: { document_ids: [...documentIds] }, signal }),
    enabled: documentIds.length > 0,
    placeholderData: (before) => before,
    staleTime: 0,
    refetchInterval: ({ state: { data } }) => (data === undefined || data.reading > 0 ? 1500 : false),
  });

/** Return where a group belongs by a rule of the organisation, or else by the documents that are like it. */
export function knownTarget({ rule, table }: DocumentGroup): { target: Target; name: string } | null {
  const known = rule ?? table;
  if (known === null) return null;
  const target: Target = known.stack_id !== null ? `stack:${known.stack_id}` : `schema:${known.schema_id}`;
  return { target, name: visibleText(known.name) };
}

/** Return what is suggested for a group. `isIn`: the table that the person drops the files into. */
export function suggested(group: DocumentGroup, name: string, isIn: Target | null, isOnly: boolean): Placing {
  const target = isIn ?? knownTarget(group)?.target ?? (isOnly ? 'fields' : group.columns.length > 0 ? 'new' : 'agent');
  return { target, name, columns: group.columns.map((column) => ({ column, name: column.name })) };
}

/** A run stops at this multiple of its estimated cost, rounded up to whole dollars. */
const COST_MARGIN = 1.5;

export function costLimit(estimate: number | null): number | null {
  return estimate === null || estimate === 0 ? null : Math.max(1, Math.ceil(estimate * COST_MARGIN));
}

/** Put the documents of a group where they belong, and start to read them. Return the stack that is filled now. */
export async function placeGroup(group: DocumentGroup, { target, name, columns }: Placing): Promise<string | null> {
  const { document_ids: ids, estimated_cost_usd: estimate } = group;
  const [kind, id = ''] = target.split(':');
  if (kind === 'store') return null;
  if (kind === 'schema' || kind === 'prompt' || kind === 'fields') {
    const options = kind === 'schema' ? { schema_id: id } : kind === 'prompt' ? { prompt_id: id } : {};
    const { failed } = await actOnEach(
      ids,
      (document) =>
        startExtraction({ document_id: document, background: ids.length > 1, ...options }, crypto.randomUUID()),
      () => undefined,
    );
    if (failed.length > 0) throw failed[0]!.error;
    return null;
  }
  const chosen = columns.flatMap(({ column, name: own }) => (own === null ? [] : [{ ...column, name: own }]));
  const stackId = kind === 'stack' ? id : await createStack(name, ids, kind === 'new' ? chosen : null);
  if (kind === 'stack')
    await api.post('/api/stacks/{stack_id}/documents', { path: { stack_id: id }, body: { document_ids: ids } });
  // The agent's own columns are shown before the rest is read.
  await startFill(
    stackId,
    crypto.randomUUID(),
    kind === 'agent' ? {} : { approval: 'auto', max_cost_usd: costLimit(estimate) },
  );
  return stackId;
}

const MAX_NAMES = 50;

/** Create a stack, with a number after its name if the name is taken. */
async function createStack(name: string, ids: string[], columns: StackColumn[] | null): Promise<string> {
  for (let number = 1; ; number++) {
    const free = number === 1 ? name : `${name} (${number})`;
    try {
      const body = { name: free, document_ids: ids, ...(columns !== null && { columns }) };
      return (await api.post('/api/stacks', { body })).id;
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'name_taken') || number > MAX_NAMES) throw error;
    }
  }
}
