/** The runs of the organisation: their state, who started them, what they took and cost; one beside the list with its
 * steps. */

import { infiniteQueryOptions, queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import {
  Ban,
  CircleCheck,
  Clock,
  LoaderCircle,
  type LucideIcon,
  Play,
  RotateCcw,
  ShieldCheck,
  TriangleAlert,
  X,
} from 'lucide-react';
import type { ReactNode } from 'react';
import { api } from '../api/client';
import type { Run, RunStatus } from '../api/types';
import { Avatar } from '../session/Avatar';
import { Button, buttonClass } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading, LoadingRows } from '../components/ui/Loading';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { StatusPill, type Tone } from '../components/ui/StatusPill';
import { Tabs } from '../components/ui/Tabs';
import { extractionQuery, problemsQuery } from '../fields/extractionQueries';
import { violationText } from '../fields/violationText';
import en from '../locales/en.json';
import { usePersonName } from '../session/people';
import { useCanWrite } from '../session/role';
import { codeText } from '../shared/codeText';
import { formatAge, formatCost, formatDuration, formatNumber, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { useTableLinks } from '../records/tableLinks';
import { agentName } from '../run/toolText';
import { Deliveries } from '../run/Deliveries';
import { RunSteps } from '../run/RunSteps';
import { SecondReading } from '../run/SecondReading';
import { FILTERS, type RunFilter, type RunsView } from './runsView';
import { useCancel } from '../run/useCancel';
import { useRun } from '../run/useRun';
import { useChange } from '../shared/useChange';

const runsRoute = getRouteApi('/runs');
const runRoute = getRouteApi('/runs/$runId');
const PAGE = 50;
const ENDED = ['completed', 'failed', 'cancelled'];
/** A column that needs room. */
const EXTRA = 'max-lg:hidden max-[96rem]:group-data-[beside=true]/list:hidden';
const LOADING_ERRORS: readonly (string | undefined)[] = ['events_forgotten', 'not_followed'];

const STATUSES: Record<RunStatus, { tone: Tone; icon: LucideIcon }> = {
  queued: { tone: 'plain', icon: Clock },
  running: { tone: 'accent', icon: LoaderCircle },
  awaiting_runs: { tone: 'accent', icon: LoaderCircle },
  awaiting_approval: { tone: 'accent', icon: ShieldCheck },
  completed: { tone: 'plain', icon: CircleCheck },
  failed: { tone: 'bad', icon: TriangleAlert },
  cancelled: { tone: 'plain', icon: Ban },
};

const runsQuery = ({ show, document }: RunsView) =>
  infiniteQueryOptions({
    queryKey: ['runs', 'list', show ?? 'all', document ?? null],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) => {
      const query = {
        limit: PAGE,
        everyone: true,
        ...(document === undefined ? { root: true } : { document_id: document }),
        ...(show !== undefined && { status: show }),
        ...(pageParam !== null && { before: pageParam }),
      };
      const page = await api.get('/api/runs', { query, signal });
      const items = page.items as Run[];
      return { items, next: page.next, names: await namesOf(items) };
    },
    getNextPageParam: (last) => last.next,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some(({ status }) => !ENDED.includes(status))) ? 3000 : 15_000,
  });

/** The file names of the documents that runs are about. */
async function namesOf(runs: readonly Run[]): Promise<ReadonlyMap<string, string>> {
  const ids = [...new Set(runs.flatMap(({ document_id: id }) => id ?? []))];
  if (ids.length === 0) return new Map();
  const query = { document_id: ids, limit: ids.length };
  const { items } = await api.get('/api/documents', { query });
  return new Map(items.map((one) => [one.id, one.filename]));
}

const runQuery = (runId: string) =>
  queryOptions({
    queryKey: ['runs', 'one', runId],
    queryFn: async ({ signal }) => {
      const params = { path: { run_id: runId } };
      const run = (await api.get('/api/runs/{run_id}', { ...params, signal })) as Run;
      return { run, names: await namesOf([run]) };
    },
    refetchInterval: ({ state: { data } }) => (data !== undefined && ENDED.includes(data.run.status) ? false : 2000),
  });

/** What was and is sent to the run's callback. */
const deliveriesQuery = (runId: string) =>
  queryOptions({
    queryKey: ['runs', 'deliveries', runId],
    queryFn: async ({ signal }) =>
      (await api.get('/api/runs/{run_id}/deliveries', { path: { run_id: runId }, signal })).items,
    refetchInterval: ({ state: { data } }) => (data?.some(({ status }) => status === 'pending') ? 3000 : 15_000),
  });

export function RunsPage() {
  return <Runs view={runsRoute.useSearch()} runId={null} />;
}

export function RunPage() {
  const { runId } = runRoute.useParams();
  return <Runs view={runRoute.useSearch()} runId={runId} />;
}

function Runs({ view, runId }: { view: RunsView; runId: string | null }) {
  const updateSearch = useUpdateSearch<RunsView>();
  const listed = useInfiniteQuery({ ...runsQuery(view), placeholderData: (before) => before });
  const pages = listed.data?.pages ?? [];
  const counts = useCounts(view);
  return (
    <div className="flex h-full min-h-0 bg-background">
      <div
        data-beside={runId !== null}
        className={cn('group/list flex min-w-0 flex-1 flex-col', runId !== null && 'max-xl:hidden')}>
        <div className="flex min-h-12 items-center gap-3 border-b border-border px-4 sm:px-6">
          <h1 className="text-lg font-semibold">{t('areas.runs')}</h1>
          {view.document !== undefined && (
            <Button icon={X} onClick={() => updateSearch(({ document: _, ...before }) => before)}>
              {t('runs.ofDocument')}
            </Button>
          )}
        </div>
        <Tabs<RunFilter>
          label={t('runs.filter')}
          value={view.show ?? 'all'}
          tabs={FILTERS.map((value) => ({ value, label: t(`runs.filters.${value}`), count: counts[value] }))}
          onChange={(next) =>
            updateSearch(({ show: _, ...before }) => (next === 'all' ? before : { ...before, show: next }))
          }
          listClass="sm:px-4"
        />
        {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
        {listed.isPending ? (
          <LoadingRows height={40} />
        ) : pages.every((page) => page.items.length === 0) && listed.isSuccess ? (
          <EmptyState icon={Play} title={t('runs.none')} text={t('runs.noneHint')} />
        ) : (
          <div className="min-h-0 flex-1 overflow-auto" role="region" aria-label={t('areas.runs')} tabIndex={0}>
            <table className="w-full border-collapse text-left text-sm">
              <thead className="sticky top-0 z-[1] bg-sidebar text-xs text-muted-foreground">
                <tr className="[&>th]:h-8 [&>th]:border-b [&>th]:border-border [&>th]:px-2 [&>th]:font-normal">
                  <th scope="col" className="pl-6! max-sm:hidden">
                    {t('runs.columns.state')}
                  </th>
                  <th scope="col" className="max-sm:pl-4!">
                    {t('runs.columns.what')}
                  </th>
                  <th scope="col" className={EXTRA}>
                    {t('runs.columns.who')}
                  </th>
                  <th scope="col" className="max-sm:hidden">
                    {t('runs.columns.started')}
                  </th>
                  <th scope="col" className="text-right max-sm:hidden">
                    {t('runs.columns.duration')}
                  </th>
                  <th scope="col" className={cn('text-right', EXTRA)}>
                    {t('runs.columns.tokens')}
                  </th>
                  <th scope="col" className="pr-4! text-right sm:pr-6!">
                    {t('runs.columns.cost')}
                  </th>
                </tr>
              </thead>
              <tbody>
                {pages.flatMap((page) =>
                  page.items.map((run) => (
                    <Row key={run.id} run={run} names={page.names} view={view} isOpen={run.id === runId} />
                  )),
                )}
              </tbody>
            </table>
            {listed.hasNextPage && (
              <div className="p-3 text-center">
                <Button disabled={listed.isFetchingNextPage} onClick={() => void listed.fetchNextPage()}>
                  {t('runs.older')}
                </Button>
              </div>
            )}
          </div>
        )}
      </div>
      {runId !== null && <RunDetails key={runId} runId={runId} view={view} />}
    </div>
  );
}

/** How many runs there are to follow, to approve and to look into, up to a page of them. */
function useCounts({ show: _, ...view }: RunsView): Partial<Record<RunFilter, number | string>> {
  const countOf = (found: { data?: { pages: { items: Run[] }[] } | undefined; hasNextPage: boolean }) => {
    const count = found.data?.pages.reduce((sum, page) => sum + page.items.length, 0);
    return found.hasNextPage ? `${formatNumber(PAGE)}+` : count || undefined;
  };
  return {
    running: countOf(useInfiniteQuery(runsQuery({ ...view, show: 'running' }))),
    awaiting_approval: countOf(useInfiniteQuery(runsQuery({ ...view, show: 'awaiting_approval' }))),
    failed: countOf(useInfiniteQuery(runsQuery({ ...view, show: 'failed' }))),
  };
}

interface RowProps {
  run: Run;
  names: ReadonlyMap<string, string>;
  view: RunsView;
  isOpen: boolean;
}

function Row({ run, names, view, isOpen }: RowProps) {
  const subject = useSubject(run, names);
  return (
    <tr
      aria-selected={isOpen}
      className="relative h-10 border-b border-line hover:bg-hover aria-selected:bg-accent [&>td]:px-2">
      <td className="pl-6! whitespace-nowrap max-sm:hidden">
        <State run={run} />
      </td>
      <td className="w-full max-w-0 max-sm:pl-4!">
        <Link
          to="/runs/$runId"
          params={{ runId: run.id }}
          search={view}
          className="flex min-h-8 items-center gap-x-2 text-foreground no-underline after:absolute after:inset-0 max-sm:min-h-14 max-sm:flex-wrap max-sm:content-center">
          <span className="truncate font-medium max-sm:w-full">{subject?.name ?? taskName(run)}</span>
          {subject !== null && (
            <span className="min-w-0 shrink-[99] truncate text-muted-foreground max-sm:text-xs">{taskName(run)}</span>
          )}
          <span className="flex shrink-0 gap-2 text-xs text-muted-foreground sm:hidden">
            {formatAge(run.created_at)} <State run={run} />
          </span>
        </Link>
      </td>
      <td className={EXTRA}>
        <Avatar id={run.created_by} isAlone />
      </td>
      <td className="whitespace-nowrap text-muted-foreground max-sm:hidden" title={formatTime(run.created_at)}>
        {formatAge(run.created_at)}
      </td>
      <td className="text-right whitespace-nowrap text-muted-foreground max-sm:hidden">{durationOf(run)}</td>
      <td className={cn('text-right text-muted-foreground', EXTRA)}>{formatNumber(tokensOf(run))}</td>
      <td className="pr-4! text-right sm:pr-6!">{costText(run)}</td>
    </tr>
  );
}

function State({ run: { status } }: { run: Run }) {
  const { tone, icon } = STATUSES[status];
  return (
    <StatusPill kind="text" tone={tone} icon={icon}>
      {t(`runs.statuses.${status}`)}
    </StatusPill>
  );
}

function RunDetails({ runId, view }: { runId: string; view: RunsView }) {
  const found = useQuery(runQuery(runId));
  const { state, resume } = useRun(runId);
  const navigate = useNavigate();
  const personName = usePersonName(true);
  const canWrite = useCanWrite();
  const run = found.data?.run;
  const subject = useSubject(run, found.data?.names ?? new Map());
  const cancel = useCancel(runId, resume);
  const retry = useChange(
    ['runs'],
    () => api.post('/api/runs/{run_id}/retry', { path: { run_id: runId } }),
    (made) => navigate({ to: '/runs/$runId', params: { runId: made.id }, search: view }),
  );
  const sent = useQuery(deliveriesQuery(runId)).data ?? [];
  const again = useChange(['runs'], (deliveryId: string) => {
    const path = { run_id: runId, delivery_id: deliveryId };
    return api.post('/api/runs/{run_id}/deliveries/{delivery_id}', { path });
  });
  const isEnded = run !== undefined && ENDED.includes(run.status);
  // A run that ended before its first step has none; whether it has any may not be known.
  const isKnown =
    state.phase === 'complete' || (state.phase === 'failed' && !LOADING_ERRORS.includes(state.error?.code));
  const hasSteps = !isEnded || !isKnown || state.steps.length > 0;
  return (
    <aside
      aria-label={t('runs.title')}
      className="flex w-full min-w-0 flex-col border-border bg-sidebar xl:w-[30rem] xl:shrink-0 xl:border-l">
      <div className="flex min-h-12 items-center gap-2 border-b border-border px-4">
        <h2 className="min-w-0 flex-1 truncate text-lg font-semibold">
          {run === undefined ? t('runs.title') : taskName(run)}
        </h2>
        {run?.status === 'awaiting_approval' && (
          <Link to="/inbox" search={{ kind: 'approval', run: runId }} className={buttonClass({ kind: 'main' })}>
            {t('runs.openInInbox')}
          </Link>
        )}
        {canWrite && run !== undefined && !isEnded && (
          <Button icon={Ban} disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            {t('common.cancel')}
          </Button>
        )}
        {canWrite && run !== undefined && (run.status === 'failed' || run.status === 'cancelled') && (
          <Button
            icon={RotateCcw}
            disabled={retry.isPending || run.parent_run_id !== null}
            onClick={() => retry.mutate()}>
            {t('common.tryAgain')}
          </Button>
        )}
        <Button
          kind="quiet"
          icon={X}
          label={t('common.close')}
          onClick={() => void navigate({ to: '/runs', search: view })}
        />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto p-4" role="region" aria-label={t('runs.steps')} tabIndex={0}>
        {found.isError && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
        {run?.error != null && (
          <p role="alert" className="mb-3 rounded-lg bg-bad-bg px-3 py-2 text-bad">
            {codeText('runErrors', run.error_code, visibleText(run.error))}
          </p>
        )}
        {found.isPending && <Loading />}
        {run !== undefined && (
          <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-3 gap-y-1.5 rounded-lg border border-border bg-card p-4 [&>dt]:text-muted-foreground">
            <Fact name={t('runs.columns.state')}>
              <State run={run} />
            </Fact>
            {subject !== null && (
              <Fact name={t('runs.about')}>
                <Link {...subject.link} className="break-all">
                  {subject.name}
                </Link>
              </Fact>
            )}
            <Fact name={t('runs.columns.who')}>
              <span className="inline-block first-letter:uppercase">{personName(run.created_by)}</span>
            </Fact>
            <Fact name={t('runs.columns.started')}>{formatTime(run.created_at)}</Fact>
            <Fact name={t('runs.columns.duration')}>{durationOf(run)}</Fact>
            <Fact name={t('common.model')}>
              {(run.models ?? []).map(({ model }) => visibleText(model)).join(', ') || '–'}
            </Fact>
            <Fact name={t('runs.columns.tokens')}>
              {t('runs.tokens', {
                read: formatNumber(
                  run.usage.input_tokens + run.usage.cache_read_input_tokens + run.usage.cache_creation_input_tokens,
                ),
                written: formatNumber(run.usage.output_tokens),
              })}
            </Fact>
            <Fact name={t('runs.columns.cost')}>{costText(run)}</Fact>
            <Fact name={t('runs.id')}>
              <code className="text-xs break-all select-all">{run.id}</code>
            </Fact>
            {run.second_reading && (
              <Fact name={t('agents.second_reading')}>
                <SecondReading of={run.second_reading} />
              </Fact>
            )}
            {run.parent_run_id !== null && (
              <Fact name={t('runs.parent')}>
                <Link to="/runs/$runId" params={{ runId: run.parent_run_id }} search={view}>
                  {t('runs.openParent')}
                </Link>
              </Fact>
            )}
          </dl>
        )}
        {run?.status === 'completed' && run.extraction_id !== null && <Incomplete extractionId={run.extraction_id} />}
        {sent.length > 0 && (
          <>
            <h3 className="mt-5 mb-2 text-sm font-semibold">{t('runs.callback')}</h3>
            <Deliveries items={sent} isSending={again.isPending} onAgain={again.mutate} />
          </>
        )}
        {hasSteps && (
          <>
            <h3 className="mt-5 mb-2 text-sm font-semibold">{t('runs.steps')}</h3>
            <div className="grid grid-cols-[minmax(0,1fr)] gap-1.5" role="log" aria-label={t('runs.steps')}>
              <RunSteps state={state} onRetry={resume} />
            </div>
          </>
        )}
      </div>
    </aside>
  );
}

/** What an extraction still lacks that is not completed. */
function Incomplete({ extractionId }: { extractionId: string }) {
  const { data: extraction } = useQuery(extractionQuery(extractionId));
  const isOpen = extraction?.status === 'in_progress';
  const problems = useQuery({ ...problemsQuery(extractionId, extraction?.version ?? 0), enabled: isOpen }).data;
  if (!isOpen) return null;
  return (
    <div className="mt-3">
      <Notice kind="unsure">
        <p className="w-full font-medium">{t('inbox.incomplete')}</p>
        {problems?.errors.map((one) => (
          <p key={one.code + one.message} className="w-full">
            {violationText(one)}
          </p>
        ))}
      </Notice>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  );
}

/** What a run is about, with its page. */
function useSubject(run: Run | undefined, names: ReadonlyMap<string, string>) {
  const tables = useTableLinks();
  if (run === undefined) return null;
  const { document_id: documentId, stack_id: stackId } = run;
  if (documentId !== null) {
    const link = { to: '/documents/$documentId', params: { documentId } } as const;
    return { name: visibleText(names.get(documentId) ?? documentId.slice(0, 8)), link };
  }
  if (stackId === null) return null;
  const link = { to: '/tables/$tableId', params: { tableId: stackId } } as const;
  return { name: tables.find(({ id }) => id === stackId)?.name ?? stackId.slice(0, 8), link };
}

function taskName({ task, agent }: Run): string {
  return Object.hasOwn(en.runs.tasks, task) ? t(`runs.tasks.${task as keyof typeof en.runs.tasks}`) : agentName(agent);
}

function durationOf({ started_at: started, finished_at: finished }: Run): string {
  if (started === null) return '–';
  return formatDuration((finished === null ? Date.now() : Date.parse(finished)) - Date.parse(started));
}

function tokensOf({ usage }: Run): number {
  const { input_tokens: read, output_tokens: written } = usage;
  return read + written + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
}

function costText({ cost_usd: cost }: Run): string {
  return cost === null ? t('runs.costUnknown') : formatCost(cost);
}
