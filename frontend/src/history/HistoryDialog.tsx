/** The history of an extraction: each version with its changes, and a button to restore it. */

import { infiniteQueryOptions, useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { dataOf, api } from '../api/client';
import type { Change, ChangedExtraction, Evidence, Extraction } from '../api/types';
import { displayValue } from '../document/fields/fieldValue';
import { pathLabel, schemaPath } from '../document/fields/labels';
import type { SchemaField } from '../document/schemaFields';
import { storeChanged } from '../document/storeChanged';
import { Replay } from '../runs/Replay';
import { usePersonName } from '../session/people';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { formatAge, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice, errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import styles from './History.module.css';
import { versionsOf, type Version } from './versions';

/** The key has the version: each version has its own history. */
const historyQuery = (extractionId: string, version: number) =>
  infiniteQueryOptions({
    queryKey: ['history', extractionId, version],
    initialPageParam: null as number | null,
    queryFn: async ({ pageParam, signal }) => {
      const params = {
        path: { extraction_id: extractionId },
        query: { limit: 100, ...(pageParam !== null && { before: pageParam }) },
      };
      return (await dataOf(api.GET('/api/extractions/{extraction_id}/history', { params, signal }))) as {
        items: Change[];
        next: number | null;
      };
    },
    getNextPageParam: (last) => last.next,
  });

interface Props {
  extraction: Extraction;
  schema: readonly SchemaField[];
  /** The run that suggested the schema, if one did. */
  suggestedBy: string | undefined;
  canWrite: boolean;
  onClose: () => void;
}

export function HistoryDialog({ extraction, schema, suggestedBy, canWrite, onClose }: Props) {
  const history = useInfiniteQuery(historyQuery(extraction.id, extraction.version));
  const versions = versionsOf((history.data?.pages ?? []).flatMap((page) => page.items));
  const queries = useQueryClient();
  const personName = usePersonName();
  const valueText = (path: string, value: unknown) =>
    displayValue(
      value,
      schema.find((one) => one.path === schemaPath(path)),
      (extraction.evidence[path] as Evidence | undefined)?.quote,
    );
  const authorOf = ({ actor, userId, dictatedBy }: Version) => {
    if (dictatedBy !== null) return t('history.dictatedBy', { person: personName(dictatedBy) });
    if (userId === null) return t('history.agent');
    return t(actor === 'agent' ? 'history.agentBy' : 'people.by', { person: personName(userId) });
  };
  const restore = useMutation({
    mutationFn: async (version: number) => {
      const params = { path: { extraction_id: extraction.id }, header: { 'if-match': `"${extraction.version}"` } };
      return (await dataOf(
        api.POST('/api/extractions/{extraction_id}/restore', { params, body: { version } }),
      )) as ChangedExtraction;
    },
    onSuccess: (changed, version) => {
      storeChanged(queries, changed);
      toast(t('history.restored', { version }));
    },
    onError: (error) => {
      toast(errorMessage(error), { urgent: true });
      void queries.invalidateQueries({ queryKey: ['extraction', extraction.id] });
    },
  });
  return (
    <Dialog title={t('history.title')} open onClose={onClose}>
      {suggestedBy !== undefined && <Replay runId={suggestedBy} label={t('runs.howSuggested')} />}
      {history.isError && <ErrorNotice error={history.error} onRetry={() => void history.refetch()} />}
      <ol className={styles.versions}>
        {versions.map((one) => (
          <li key={one.version}>
            <div className={styles.head}>
              <b>{t('history.version', { version: one.version })}</b>
              <span>{authorOf(one)}</span>
              <span className="muted" title={formatTime(one.at)}>
                {formatAge(one.at)}
              </span>
              {one.runId !== null && (
                <Link to="/runs/$runId" params={{ runId: one.runId }}>
                  {t('history.run')}
                </Link>
              )}
              {one.version === extraction.version ? (
                <span className="muted">{t('history.current')}</span>
              ) : !canWrite ? null : (
                <Button
                  disabled={restore.isPending}
                  aria-label={t('history.restoreVersion', { version: one.version })}
                  onClick={() => restore.mutate(one.version)}>
                  {t('history.restore')}
                </Button>
              )}
            </div>
            <ul>
              {one.changes.map((change) => (
                <li key={change.path} className={styles.change}>
                  <span title={visibleText(change.path)}>{pathLabel(change.path, schema)}</span>
                  <span>
                    <s className="muted">{change.added ? '' : valueText(change.path, change.old)}</s> →{' '}
                    {change.removed ? t('history.removed') : valueText(change.path, change.new)}
                  </span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {history.isSuccess && versions.length === 0 && <p className="muted">{t('history.none')}</p>}
      {history.hasNextPage && (
        <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>
          {t('history.older')}
        </Button>
      )}
    </Dialog>
  );
}
