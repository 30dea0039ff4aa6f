/** What was changed in an extraction, by whom and when, and a way back to each version. */

import { infiniteQueryOptions, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { Change, ChangedExtraction, Extraction } from '../api/types';
import { storeChanged } from '../document/storeChanged';
import { Replay } from '../runs/Replay';
import { meQuery } from '../session/config';
import { Button } from '../shared/Button';
import { Dialog } from '../shared/Dialog';
import { ago, atMoment, visibleText } from '../shared/format';
import { ErrorNotice, errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import styles from './History.module.css';
import { versionsOf, type Version } from './versions';

/** Its key has the version: another one has another history. */
const historyQuery = (extractionId: string, version: number) =>
  infiniteQueryOptions({
    queryKey: ['history', extractionId, version],
    initialPageParam: null as number | null,
    queryFn: async ({ pageParam, signal }) => {
      const params = { path: { extraction_id: extractionId }, query: { limit: 100, ...(pageParam !== null && { before: pageParam }) } };
      return (await dataOf(api.GET('/api/extractions/{extraction_id}/history', { params, signal }))) as { items: Change[]; next: number | null };
    },
    getNextPageParam: (last) => last.next,
  });

interface Props {
  extraction: Extraction;
  /** The run that suggested its schema, where one did. */
  suggestedBy: string | undefined;
  canWrite: boolean;
  onClose: () => void;
}

export function HistoryDialog({ extraction, suggestedBy, canWrite, onClose }: Props) {
  const history = useInfiniteQuery(historyQuery(extraction.id, extraction.version));
  const versions = versionsOf((history.data?.pages ?? []).flatMap((page) => page.items));
  const queries = useQueryClient();
  const restore = useMutation({
    mutationFn: async (version: number) => {
      const params = { path: { extraction_id: extraction.id }, header: { 'if-match': `"${extraction.version}"` } };
      return (await dataOf(api.POST('/api/extractions/{extraction_id}/restore', { params, body: { version } }))) as ChangedExtraction;
    },
    onSuccess: (changed) => {
      storeChanged(queries, changed);
      toast('Restored the earlier version.');
    },
    onError: (error) => {
      toast(errorMessage(error), { urgent: true });
      void queries.invalidateQueries({ queryKey: ['extraction', extraction.id] });
    },
  });
  return (
    <Dialog title="History" open onClose={onClose}>
      {suggestedBy !== undefined && <Replay runId={suggestedBy} words="How the schema was suggested" />}
      {history.isError && <ErrorNotice error={history.error} onRetry={() => void history.refetch()} />}
      <ol className={styles.versions}>
        {versions.map((one) => (
          <li key={one.version}>
            <div className={styles.head}>
              <b>Version {one.version}</b>
              <Who version={one} />
              <span className="muted" title={atMoment(one.at)}>
                {ago(one.at)}
              </span>
              {one.version === extraction.version ? (
                <span className="muted">current</span>
              ) : !canWrite ? null : (
                <Button disabled={restore.isPending} aria-label={`Restore version ${one.version}`} onClick={() => restore.mutate(one.version)}>
                  Restore
                </Button>
              )}
            </div>
            <ul>
              {one.changes.map((change) => (
                <li key={change.path} className={styles.change}>
                  <code>{visibleText(change.path)}</code>
                  <span>
                    <s className="muted">{change.added ? '' : asText(change.old)}</s> → {change.removed ? 'nothing' : asText(change.new)}
                  </span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {history.isSuccess && versions.length === 0 && <p className="muted">No changes yet.</p>}
      {history.hasNextPage && (
        <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>
          Load older
        </Button>
      )}
    </Dialog>
  );
}

function Who({ version }: { version: Version }) {
  const me = useQuery(meQuery);
  const isMe = version.userId !== null && version.userId === me.data?.user_id;
  if (version.actor === 'agent') return <span>an agent{isMe && ' of yours'}</span>;
  return <span>{isMe ? 'you' : 'another person'}</span>;
}

function asText(value: unknown): string {
  return visibleText(typeof value === 'string' ? value : JSON.stringify(value ?? null));
}
