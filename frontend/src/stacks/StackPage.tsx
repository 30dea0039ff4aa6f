/** One stack: its table, the run that fills it, and a box to change it in words. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { startFill, startStackCorrection } from '../api/runs';
import type { RecordRow, Stack } from '../api/types';
import { waitingRunQuery } from '../approvals/approvalQueries';
import { onUploaded } from '../documents/uploads';
import { Uploads } from '../documents/Uploads';
import { isRunning } from '../runs/runReducer';
import { RunPanel } from '../runs/RunPanel';
import { useRun } from '../runs/useRun';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { formatDollars, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { Loading } from '../components/ui/Loading';
import { Markdown } from '../shared/Markdown';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice, errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { TableViews } from '../shared/TableViews';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { RecordsTable } from '../tables/RecordsTable';
import { TableExport } from '../tables/TableExport';
import tableStyles from '../tables/Tables.module.css';
import type { TableRequest } from '../tables/tableQueries';
import type { TableView } from '../tables/tableView';
import { AddDocuments } from './AddDocuments';
import { ChangesDialog } from './ChangesDialog';
import { ColumnsDialog } from './ColumnsDialog';
import { StackMenu } from './StackMenu';
import { ProgressBar, progressText } from './ProgressBar';
import { isBusy, stackQuery } from './stackQueries';
import { WaitingRows } from './WaitingRows';
import styles from './Stacks.module.css';

const stackRoute = getRouteApi('/stacks/$stackId');

/** Rows are loaded again at most this often while the table is being filled. */
const RELOAD_MS = 1500;

export function StackPage() {
  const { stackId } = stackRoute.useParams();
  const view = stackRoute.useSearch();
  const stack = useQuery(stackQuery(stackId));
  if (stack.isError) {
    return (
      <div className={tableStyles.content}>
        <ErrorNotice error={stack.error} onRetry={() => void stack.refetch()} />
        <Link to="/stacks">{t('stacks.toList')}</Link>
      </div>
    );
  }
  if (stack.data === undefined) return <Loading />;
  return <StackView key={stackId} stack={stack.data} view={view} />;
}

function StackView({ stack, view }: { stack: Stack; view: TableView }) {
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const updateSearch = useUpdateSearch<TableView>();
  const [isEditing, setEditing] = useState(false);
  const [showsChanges, setShowsChanges] = useState(false);
  const { id, progress } = stack;
  const runId = stack.run?.run_id ?? null;
  const { state, resume } = useRun(runId);
  const key = JSON.stringify(view);
  const request = useMemo((): TableRequest => ({ of: { stack: id }, ...view }), [id, key]);

  useEffect(() => {
    document.title = t('common.pageTitle', { title: visibleText(stack.name) });
  }, [stack.name]);
  useEffect(() => onUploaded(() => reload()));
  const reload = () => {
    for (const queryKey of [['stacks'], ['records', 'rows'], ['records', 'totals'], ['runs']])
      void queries.invalidateQueries({ queryKey });
  };
  // Show rows as they are read: by the run, or first by the service.
  const counts = JSON.stringify(progress);
  const { progress: read, phase } = state;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      reload();
    }, RELOAD_MS);
  }, [read, phase, state.steps.length, counts]);
  useEffect(() => () => clearTimeout(timer.current), []);

  /** The run that was started here: its answer is shown when it ends. */
  const [started, setStarted] = useState<string | null>(null);
  const idempotency = useRef(crypto.randomUUID());
  const start = useMutation({
    mutationFn: (message: string) => {
      if (message === '') return startFill(id, idempotency.current);
      // Before anything is read, a message is about how to read.
      return isUnread
        ? startFill(id, idempotency.current, { instructions: message })
        : startStackCorrection(id, message, idempotency.current);
    },
    onSuccess: async (started) => {
      idempotency.current = crypto.randomUUID();
      setStarted(started);
      await queries.invalidateQueries({ queryKey: ['stacks'] });
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  const isUnread = progress.done + progress.incomplete + progress.stale === 0;
  const running =
    runId !== null && (isRunning(state) || state.phase === 'approval') && (isBusy(stack) || state.phase !== 'starting');
  const toRead = progress.waiting + progress.stale;
  // Files that could not be read fail again.
  const [failed, incomplete] = [progress.failed - progress.unreadable, progress.incomplete];
  const cost = Math.max(progress.cost_usd ?? 0, state.costUsd ?? 0);
  return (
    <div className={styles.page}>
      <div className={tableStyles.bar}>
        <h1 className="truncate">
          <Link to="/stacks" className={styles.back}>
            {t('areas.stacks')}
          </Link>
          {' / '}
          {visibleText(stack.name)}
        </h1>
        {stack.schema_id !== null && <TableViews schemaId={stack.schema_id} stackId={id} />}
        <div className={styles.actions}>
          {canWrite && (
            <>
              <StackMenu stack={stack} />
              <AddDocuments stackId={id} />
              <Button disabled={running} onClick={() => setEditing(true)}>
                <Icon name="pencil" /> {t('stacks.columns')}
              </Button>
            </>
          )}
          {runId !== null && !running && (
            <Button onClick={() => setShowsChanges(true)}>
              <Icon name="clock" /> {t('stacks.changes')}
            </Button>
          )}
          <TableExport request={request} name={visibleText(stack.name)} />
          {canWrite && (
            <Button
              kind="main"
              className={styles.first}
              disabled={running || start.isPending || toRead + failed + incomplete === 0}
              onClick={() => start.mutate('')}>
              <Icon name="spark" />{' '}
              {toRead === 0 && failed > 0 && incomplete === 0 ? t('stacks.retry', { count: failed }) : t('stacks.fill')}
            </Button>
          )}
        </div>
      </div>
      <div className={styles.status}>
        <div className={styles.facts}>
          <ProgressBar progress={progress} />
          <span>{progressText(progress)}</span>
          <StateFilters
            progress={progress}
            chosen={view.state}
            onChoose={(to) =>
              updateSearch(({ state: _, ...others }) => (to === undefined ? others : { ...others, state: to }))
            }
          />
          {cost > 0 && <span title={t('runs.cost')}>{formatDollars(cost)}</span>}
          {canWrite && progress.documents > 0 && (
            <Link to="/ask" search={{ stack: id }} className={styles.ask}>
              {t('stacks.ask')}
            </Link>
          )}
        </div>
        {canWrite && stack.columns.length === 0 && !running && (
          <p className="muted">{t(stack.schema_deleted ? 'stacks.schemaDeleted' : 'stacks.noColumnsHint')}</p>
        )}
        <Uploads />
        <WaitingRows stack={stack} />
        {started !== null && started === runId && phase === 'complete' && (
          <RunAnswer runId={started} onClose={() => setStarted(null)} />
        )}
        {runId !== null && (running || state.phase === 'failed') && (
          <RunPanel runId={runId} state={state} canWrite={canWrite} onResume={resume} />
        )}
      </div>
      <RecordsTable
        request={request}
        label={visibleText(stack.name)}
        onView={updateSearch}
        empty={
          <EmptyState title={t('stacks.empty')}>
            <p>{t('stacks.emptyHint')}</p>
            {canWrite && <AddDocuments stackId={id} />}
          </EmptyState>
        }
      />
      {canWrite && progress.documents > 0 && (
        <StackMessage
          isUnread={isUnread}
          isBlocked={running || start.isPending}
          onSend={(message) => start.mutateAsync(message)}
        />
      )}
      {showsChanges && <ChangesDialog stack={stack} canWrite={canWrite} onClose={() => setShowsChanges(false)} />}
      {isEditing && <ColumnsDialog stack={stack} onClose={() => setEditing(false)} />}
    </div>
  );
}

/** What the agent said at the end of a run: a change in words may not have been understood. */
function RunAnswer({ runId, onClose }: { runId: string; onClose: () => void }) {
  const { data: run } = useQuery(waitingRunQuery(runId));
  if (run?.answer == null || run.answer === '') return null;
  return (
    <div className={styles.answer} role="status">
      <Markdown text={run.answer} />
      <Button kind="quiet" label={t('common.dismiss')} onClick={onClose}>
        <Icon name="cross" />
      </Button>
    </div>
  );
}

const FILTERED = [
  'awaiting_approval',
  'failed',
  'stale',
  'incomplete',
  'waiting',
  'running',
  'duplicate',
  'container',
] as const;

/** The states of rows other than done, as filters. */
function StateFilters({
  progress,
  chosen,
  onChoose,
}: {
  progress: Stack['progress'];
  chosen: RecordRow['status'] | undefined;
  onChoose: (state: RecordRow['status'] | undefined) => void;
}) {
  return FILTERED.map((state) => {
    const count =
      state === 'duplicate' ? progress.duplicates : state === 'container' ? progress.containers : progress[state];
    if (count === 0 && chosen !== state) return null;
    return (
      <button
        key={state}
        type="button"
        className={styles.filter}
        data-tone={state}
        aria-pressed={chosen === state}
        onClick={() => onChoose(chosen === state ? undefined : state)}>
        {state === 'duplicate' || state === 'container'
          ? t(`stacks.${state}s`, { count })
          : `${formatNumber(count)} ${t(`tables.rowStatuses.${state}`)}`}
      </button>
    );
  });
}

function StackMessage({
  isUnread,
  isBlocked,
  onSend,
}: {
  isUnread: boolean;
  isBlocked: boolean;
  onSend: (message: string) => Promise<unknown>;
}) {
  const [message, setMessage] = useState('');
  return (
    <form
      className={styles.message}
      onSubmit={(event) => {
        event.preventDefault();
        if (message.trim() !== '' && !isBlocked)
          void onSend(message.trim()).then(
            () => setMessage(''),
            () => undefined,
          );
      }}>
      <Icon name="spark" />
      <input
        aria-label={t(isUnread ? 'stacks.instructions' : 'stacks.correction')}
        placeholder={t(isUnread ? 'stacks.instructionsHint' : 'stacks.correctionHint')}
        maxLength={8000}
        value={message}
        onChange={({ target }) => setMessage(target.value)}
      />
      <Button type="submit" disabled={isBlocked || message.trim() === ''}>
        {t(isUnread ? 'stacks.fill' : 'document.correct')}
      </Button>
    </form>
  );
}
