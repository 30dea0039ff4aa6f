/** What happened to a document: its upload, the runs with their cost, and each change with who made it. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api } from '../api/client';
import type { DocumentDetails, Extraction, Run } from '../api/types';
import { Avatar } from '../session/Avatar';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { HistoryList } from '../history/HistoryList';
import { Replay } from '../run/Replay';
import { SecondReading } from '../run/SecondReading';
import { agentName } from '../run/toolText';
import { usePersonName } from '../session/people';
import { codeText } from '../shared/codeText';
import { formatBytes, formatDollars, formatDuration, formatTime, sumCosts } from '../shared/format';
import { t } from '../shared/i18n';
import type { SchemaField } from '../fields/schemaFields';

const runsQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['runs', 'of', documentId],
    queryFn: async ({ signal }) => {
      const query = { document_id: documentId, everyone: true, limit: 50 };
      return (await api.get('/api/runs', { query, signal })).items as unknown as Run[];
    },
  });

interface Props {
  document: DocumentDetails;
  extraction: Extraction | undefined;
  schema: readonly SchemaField[];
  canWrite: boolean;
}

export function ActivityPanel({ document, extraction, schema, canWrite }: Props) {
  const runs = useQuery(runsQuery(document.id));
  const ids = new Set(runs.data?.map(({ id }) => id));
  // The cost of a run includes that of the runs that it started.
  const started = runs.data?.filter(({ parent_run_id: parent }) => parent === null || !ids.has(parent));
  const cost = sumCosts((started ?? []).map((one) => Number(one.cost_usd ?? 0))) ?? 0;
  return (
    <div
      className="grid min-h-0 flex-1 content-start gap-5 overflow-y-auto p-4"
      tabIndex={0}
      role="region"
      aria-label={t('document.activity')}>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1 [&>dt]:text-muted-foreground">
        <dt>{t('document.added')}</dt>
        <dd>{formatTime(document.created_at)}</dd>
        <dt>{t('document.size')}</dt>
        <dd>
          {t('common.pages', { count: document.page_count ?? 0 })}, {formatBytes(document.byte_size ?? 0)}
        </dd>
        <dt>{t('home.cost')}</dt>
        <dd>{formatDollars(cost)}</dd>
      </dl>
      <section className="grid gap-2" aria-label={t('document.runs')}>
        <h2 className="text-sm font-semibold">{t('document.runs')}</h2>
        {runs.isError && <ErrorNotice error={runs.error} onRetry={() => void runs.refetch()} />}
        {runs.isPending && <Loading />}
        {started?.length === 0 && <p className="text-muted-foreground">{t('document.noRuns')}</p>}
        <ol>
          {started?.map((run) => (
            <li key={run.id} className="border-t border-line py-2">
              <RunLine run={run} />
            </li>
          ))}
        </ol>
      </section>
      {extraction !== undefined && <HistoryList extraction={extraction} schema={schema} canWrite={canWrite} />}
    </div>
  );
}

function RunLine({ run }: { run: Run }) {
  const personName = usePersonName();
  const person = personName(run.created_by);
  const took =
    run.started_at === null || run.finished_at === null
      ? null
      : formatDuration(Date.parse(run.finished_at) - Date.parse(run.started_at));
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-2">
        <Avatar id={run.created_by} />
        <Link to="/runs/$runId" params={{ runId: run.id }} className="font-medium">
          {agentName(run.agent)}
        </Link>
        <span className="text-muted-foreground">{t('people.by', { person })}</span>
        <span className="flex-1" />
        <span className={run.status === 'failed' ? 'text-bad' : 'text-muted-foreground'}>
          {t(`runs.statuses.${run.status}`)}
        </span>
      </div>
      <p className="text-xs text-muted-foreground">
        {[formatTime(run.created_at), took, run.cost_usd === null ? null : formatDollars(Number(run.cost_usd))]
          .filter((one) => one !== null)
          .join(' · ')}
      </p>
      {run.error !== null && <p className="text-bad">{codeText('runErrors', run.error_code, run.error)}</p>}
      {run.second_reading && (
        <p className="text-xs">
          {t('agents.second_reading')}: <SecondReading of={run.second_reading} />
        </p>
      )}
      <Replay runId={run.id} />
    </>
  );
}
