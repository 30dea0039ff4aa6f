/** The history of an extraction: each version with its changes, and a button to restore it. */

import { infiniteQueryOptions, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { atVersion } from '../api/atVersion';
import { api } from '../api/client';
import type { Change, ChangedExtraction, Evidence, Extraction } from '../api/types';
import { displayValue } from '../fields/fieldValue';
import { pathLabel, schemaPath } from '../fields/labels';
import type { SchemaField } from '../fields/schemaFields';
import { storeChanged } from '../fields/storeChanged';
import { usePersonName } from '../session/people';
import { Avatar } from '../session/Avatar';
import { Button } from '../components/ui/Button';
import { formatAge, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { versionsOf, type Version } from './versions';
import { useChange } from '../shared/useChange';

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
      return (await api.get('/api/extractions/{extraction_id}/history', { ...params, signal })) as {
        items: Change[];
        next: number | null;
      };
    },
    getNextPageParam: (last) => last.next,
  });

interface Props {
  extraction: Extraction;
  schema: readonly SchemaField[];
  canWrite: boolean;
}

export function HistoryList({ extraction, schema, canWrite }: Props) {
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
  const places = new Map(schema.map((one, index) => [one.path, index]));
  const placeOf = (path: string) => places.get(schemaPath(path)) ?? places.size;
  const authorOf = ({ actor, userId, dictatedBy }: Version) => {
    if (dictatedBy !== null) return t('history.dictatedBy', { person: personName(dictatedBy) });
    if (userId === null) return t('history.agent');
    return t(actor === 'agent' ? 'history.agentBy' : 'people.by', { person: personName(userId) });
  };
  const restore = useChange(
    [['extraction', extraction.id]],
    (version: number) =>
      api.post('/api/extractions/{extraction_id}/restore', {
        ...atVersion(extraction.id, extraction.version),
        body: { version },
      }),
    (changed, version) => {
      storeChanged(queries, changed as ChangedExtraction);
      toast(t('history.restored', { version }));
    },
  );
  return (
    <section className="grid gap-3" aria-label={t('history.title')}>
      <h2 className="text-sm font-semibold">{t('history.title')}</h2>
      {history.isError && <ErrorNotice error={history.error} onRetry={() => void history.refetch()} />}
      <ol className="grid gap-3">
        {versions.map((one) => (
          <li key={one.version} className="border-t border-line pt-2">
            <div className="flex min-h-7 flex-wrap items-center gap-x-2">
              {one.userId !== null && <Avatar id={one.userId} />}
              <span className="font-medium">{authorOf(one)}</span>
              <span className="text-xs text-muted-foreground" title={formatAge(one.at)}>
                {formatTime(one.at)}
              </span>
              <span className="flex-1" />
              {one.runId !== null && (
                <Link to="/runs/$runId" params={{ runId: one.runId }}>
                  {t('history.run')}
                </Link>
              )}
              <span className="text-xs text-muted-foreground">
                {one.version === extraction.version
                  ? t('history.current')
                  : t('history.version', { version: one.version })}
              </span>
              {one.version === extraction.version || !canWrite ? null : (
                <Button
                  disabled={restore.isPending}
                  aria-label={t('history.restoreVersion', { version: one.version })}
                  onClick={() => restore.mutate(one.version)}>
                  {t('history.restore')}
                </Button>
              )}
            </div>
            <ul>
              {one.changes
                .toSorted((a, b) => placeOf(a.path) - placeOf(b.path))
                .map((change) => (
                  <li
                    key={change.path}
                    className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)] gap-2 py-0.5 wrap-anywhere">
                    <span className="text-muted-foreground" title={visibleText(change.path)}>
                      {pathLabel(change.path, schema)}
                    </span>
                    <span>
                      {!change.added && (
                        <>
                          <del className="text-muted-foreground">{valueText(change.path, change.old)}</del> →{' '}
                        </>
                      )}
                      {change.removed ? t('history.removed') : valueText(change.path, change.new)}
                    </span>
                  </li>
                ))}
            </ul>
          </li>
        ))}
      </ol>
      {history.isSuccess && versions.length === 0 && <p className="text-muted-foreground">{t('history.none')}</p>}
      {history.hasNextPage && (
        <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>
          {t('history.older')}
        </Button>
      )}
    </section>
  );
}
