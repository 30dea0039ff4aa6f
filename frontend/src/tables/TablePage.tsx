/** A table: the documents of a stack or of a schema as rows, and what fills them. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link, Navigate } from '@tanstack/react-router';
import { CircleHelp, FileQuestion, LoaderCircle, MessageSquareText, X } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { startFill, startStackCorrection } from '../api/runs';
import type { RecordRow, Stack, TableSummary } from '../api/types';
import { waitingRunQuery } from '../run/approvalQueries';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { EmptyState } from '../components/ui/EmptyState';
import { Input } from '../components/ui/Input';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { StatusPill } from '../components/ui/StatusPill';
import { DropArea } from '../documents/DropArea';
import { Uploads } from '../documents/Uploads';
import { onUploaded } from '../documents/uploads';
import { pathLabel } from '../fields/labels';
import { RunPanel } from '../approvals/RunPanel';
import { isRunning } from '../run/runReducer';
import { useCancel } from '../run/useCancel';
import { useRun } from '../run/useRun';
import { useCanWrite } from '../session/role';
import { formatDollars, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Markdown } from '../shared/Markdown';
import { TableViews } from '../shared/TableViews';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { AddDocuments } from './AddDocuments';
import { ChangesDialog } from './ChangesDialog';
import { ColumnsDialog } from './ColumnsDialog';
import { RecordsTable } from './RecordsTable';
import { isBusy, stackQuery } from '../records/stackQueries';
import { TableExport } from './TableExport';
import { TableMenu } from './TableMenu';
import { tableKey, type TableRequest } from '../records/tableQueries';
import { tablesQuery } from '../records/tablesQuery';
import { rowsOf, type TableView } from '../records/tableView';
import { WaitingRows } from './WaitingRows';
import { refresh } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

const route = getRouteApi('/tables/$tableId');

export function TablePage() {
  const { tableId } = route.useParams();
  const view = route.useSearch();
  const tables = useQuery(tablesQuery);
  const table = tables.data?.find(({ id }) => id === tableId);
  const stack = useQuery({
    ...stackQuery(tableId),
    enabled: tables.data !== undefined && table?.schema_id !== tableId,
  });
  if (tables.isError) return <ErrorNotice error={tables.error} onRetry={() => void tables.refetch()} />;
  // The table of a schema that belongs to a stack is that of the stack.
  const ofSchema = tables.data?.find((one) => one.schema_id === tableId && one.id !== tableId);
  if (ofSchema !== undefined) return <Navigate to="/tables/$tableId" params={{ tableId: ofSchema.id }} replace />;
  if (table?.stack_id === null) return <View key={tableId} table={table} stack={null} view={view} />;
  if (stack.data !== undefined)
    return <View key={tableId} table={table ?? summaryOf(stack.data)} stack={stack.data} view={view} />;
  if (tables.isPending || stack.isPending) return <Loading />;
  return (
    <EmptyState icon={FileQuestion} title={t('tables.notFound')}>
      <Link to="/tables">{t('tables.toList')}</Link>
    </EmptyState>
  );
}

/** Of a new one that is not in the list yet. */
function summaryOf({ id, name, schema_id, progress, created_at }: Stack): TableSummary {
  const counts = { records: progress.documents, to_review: 0, values_to_review: 0 };
  return { id, stack_id: id, schema_id, name, changed_at: created_at, ...counts };
}

interface ViewProps {
  table: TableSummary;
  stack: Stack | null;
  view: TableView;
}

function View({ table, stack, view }: ViewProps) {
  const { id } = table;
  const canWrite = useCanWrite();
  const updateSearch = useUpdateSearch<TableView>();
  const [reviews, setReviews] = useState(0);
  const [dialog, setDialog] = useState<'changes' | 'columns' | 'words' | null>(null);
  const name = visibleText(stack?.name ?? table.name);
  const key = JSON.stringify(view);
  const busy = stack !== null && (isBusy(stack) || stack.progress.waiting + stack.progress.running > 0);
  const request = useMemo(
    (): TableRequest => ({ table: id, ...rowsOf(view), ...(busy && { readingFirst: true }) }),
    [id, key, busy],
  );
  const fill = useFill(stack);
  useEffect(() => {
    document.title = t('common.pageTitle', { title: name });
  }, [name]);
  const schemaId = stack === null ? table.schema_id : stack.schema_id;
  const rest =
    stack === null ? 0 : stack.progress.waiting + stack.progress.stale + fill.failed + stack.progress.incomplete;
  const isReviewMain = (stack?.progress.waiting ?? 0) === 0 || fill.isRunning;
  const showOpen = () => updateSearch((before) => ({ ...before, cells: 'to_review' }));
  return (
    <div className="flex h-full min-h-0 flex-col bg-background max-sm:overflow-auto">
      <header className="flex min-h-12 shrink-0 items-center gap-2 border-b border-border px-4 max-sm:flex-wrap max-sm:px-3 max-sm:py-1.5">
        <h1 className="min-w-0 truncate text-lg font-semibold">{name}</h1>
        <span className="shrink-0 text-muted-foreground max-sm:hidden">
          {t('tables.documentCount', { count: table.records })}
        </span>
        {table.to_review > 0 && (
          <button type="button" className="shrink-0" onClick={showOpen}>
            <StatusPill tone="need">{t('tables.needYou', { count: table.to_review })}</StatusPill>
          </button>
        )}
        <span className="flex-1 sm:hidden" />
        <div className="contents max-sm:order-1 max-sm:flex max-sm:w-full max-sm:items-center max-sm:gap-2">
          {schemaId !== null && <TableViews schemaId={schemaId} tableId={id} />}
          <span className="flex-1" />
          <TableExport request={request} name={name} isEmpty={table.records === 0} />
          {stack !== null && canWrite && <AddDocuments stackId={id} />}
          {stack !== null && canWrite && rest > 0 && !fill.isRunning && (
            <Button
              kind={table.values_to_review === 0 || stack.progress.waiting > 0 ? 'main' : 'plain'}
              disabled={fill.start.isPending}
              onClick={() => fill.start.mutate('')}>
              {t(stack.progress.waiting > 0 || stack.columns.length === 0 ? 'stacks.fill' : 'stacks.fillRest', {
                count: rest,
              })}
            </Button>
          )}
          {table.values_to_review > 0 && (
            <Button kind={isReviewMain ? 'main' : 'plain'} keys="R" onClick={() => setReviews(reviews + 1)}>
              {t('tables.reviewValues', { count: table.values_to_review })}
            </Button>
          )}
        </div>
        {stack !== null && (
          <TableMenu stack={stack} canWrite={canWrite} isRunning={fill.isRunning} onShow={setDialog} />
        )}
      </header>
      <RecordsTable
        key={tableKey(request)}
        request={request}
        view={view}
        stackId={stack?.id ?? null}
        schemaId={schemaId}
        label={name}
        onView={updateSearch}
        reviews={reviews}
        empty={
          stack !== null && (
            <>
              {stack.columns.length > 0 && (
                <p className="flex h-8 shrink-0 items-center gap-8 overflow-hidden border-b border-border bg-sidebar px-4 text-xs whitespace-nowrap text-muted-foreground">
                  {stack.columns.map((one) => (
                    <span key={one.name}>{pathLabel(one.name)}</span>
                  ))}
                </p>
              )}
              {canWrite ? (
                <DropArea className="m-4" />
              ) : (
                <EmptyState title={t('stacks.empty')} text={t('stacks.emptyHint')} />
              )}
            </>
          )
        }>
        {stack !== null && (
          <Filling
            stack={stack}
            fill={fill}
            canWrite={canWrite}
            shownState={view.state}
            onState={(to) =>
              updateSearch(({ state: _, ...others }) => (to === undefined ? others : { ...others, state: to }))
            }
          />
        )}
      </RecordsTable>
      {dialog === 'changes' && stack !== null && (
        <ChangesDialog stack={stack} canWrite={canWrite} onClose={() => setDialog(null)} />
      )}
      {dialog === 'columns' && stack !== null && <ColumnsDialog stack={stack} onClose={() => setDialog(null)} />}
      {dialog === 'words' && stack !== null && (
        <WordsDialog
          isUnread={fill.isUnread}
          onSend={(message) => fill.start.mutateAsync(message)}
          onClose={() => setDialog(null)}
        />
      )}
    </div>
  );
}

/** The runs that fill the table of a stack. */
function useFill(stack: Stack | null) {
  const queries = useQueryClient();
  const runId = stack?.run?.run_id ?? null;
  const { state, resume } = useRun(runId);
  /** The run that was started here: its answer is shown when it ends. */
  const [started, setStarted] = useState<string | null>(null);
  const idempotency = useRef(crypto.randomUUID());
  const progress = stack?.progress;
  const isUnread = progress !== undefined && progress.done + progress.incomplete + progress.stale === 0;
  const start = useChange(
    ['stacks'],
    (message: string) => {
      const [id, key] = [stack!.id, idempotency.current];
      if (message === '') return startFill(id, key);
      // Before anything is read, a message is about how to read.
      return isUnread ? startFill(id, key, { instructions: message }) : startStackCorrection(id, message, key);
    },
    (run) => {
      idempotency.current = crypto.randomUUID();
      setStarted(run);
    },
  );
  const isActive = isRunning(state) || state.phase === 'approval';
  useEffect(() => onUploaded(() => void refresh(queries, 'stacks')));
  // What was read is in the rows, which load by themselves; what a run did as a whole is not.
  const counts = JSON.stringify(progress);
  useEffect(() => {
    void refresh(queries, 'records', 'runs');
  }, [state.phase, counts, queries]);
  return {
    runId,
    state,
    resume,
    started,
    setStarted,
    start,
    isUnread,
    isRunning: stack !== null && runId !== null && isActive && (isBusy(stack) || state.phase !== 'starting'),
    /** Files that could not be read fail again. */
    failed: progress === undefined ? 0 : progress.failed - progress.unreadable,
  };
}

interface FillingProps {
  stack: Stack;
  fill: ReturnType<typeof useFill>;
  canWrite: boolean;
  shownState: RecordRow['status'] | undefined;
  onState: (state: RecordRow['status'] | undefined) => void;
}

/** How far the table is filled, and what the agent asks meanwhile. */
function Filling({ stack, fill, canWrite, shownState, onState }: FillingProps) {
  const { progress } = stack;
  const { runId, state, resume, started } = fill;
  const cancel = useCancel(runId ?? '', resume);
  const documents = progress.documents - progress.duplicates - progress.containers;
  const read = progress.done + progress.stale + progress.incomplete + progress.failed;
  const left = useTimeLeft(read, documents, fill.isRunning);
  const cost = Math.max(progress.cost_usd ?? 0, state.costUsd ?? 0);
  const facts = [left, cost > 0 && formatDollars(cost)].filter(Boolean).join(' · ');
  const isReading = fill.isRunning && state.phase !== 'approval';
  return (
    <>
      <Uploads />
      {canWrite && stack.columns.length === 0 && !fill.isRunning && (
        <p className="border-b border-border bg-sidebar px-4 py-2 text-muted-foreground">
          {t(stack.schema_deleted ? 'stacks.schemaDeleted' : 'stacks.noColumnsHint')}
        </p>
      )}
      {(isReading || progress.running > 0) && (
        <div className="flex h-9 shrink-0 items-center gap-3 border-b border-border bg-sidebar px-4">
          <LoaderCircle size={14} className="shrink-0 animate-spin text-primary" aria-hidden="true" />
          <span className="shrink-0 font-medium" role="status">
            {t('stacks.reading', { read, count: documents })}
          </span>
          <Progress className="max-w-40" value={read} max={Math.max(1, documents)} label={t('stacks.progress')} />
          <span className="min-w-0 flex-1 truncate text-xs text-muted-foreground">{facts}</span>
          {canWrite && isReading && (
            <Button kind="quiet" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
              {t('common.cancel')}
            </Button>
          )}
        </div>
      )}
      <StateFilters progress={progress} chosen={shownState} onChoose={onState} />
      <WaitingRows stack={stack} />
      {started !== null && started === runId && state.phase === 'complete' && (
        <RunAnswer runId={started} onClose={() => fill.setStarted(null)} />
      )}
      {runId !== null && ((fill.isRunning && state.phase === 'approval') || state.phase === 'failed') && (
        <div className="max-h-[45vh] shrink-0 overflow-auto border-b border-border p-3">
          <RunPanel runId={runId} state={state} canWrite={canWrite} onResume={resume} />
        </div>
      )}
    </>
  );
}

const FILTERED = ['failed', 'stale', 'incomplete', 'awaiting_approval', 'duplicate', 'container'] as const;

/** The states of rows that are not read as they should be, as filters. */
function StateFilters({
  progress,
  chosen,
  onChoose,
}: {
  progress: Stack['progress'];
  chosen: RecordRow['status'] | undefined;
  onChoose: (state: RecordRow['status'] | undefined) => void;
}) {
  const counts = { ...progress, duplicate: progress.duplicates, container: progress.containers };
  const shown = FILTERED.filter((state) => counts[state] > 0);
  if (shown.length === 0) return null;
  return (
    <div className="flex shrink-0 flex-wrap gap-1.5 border-b border-border bg-sidebar px-4 py-1.5">
      {shown.map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={chosen === state}
          className="rounded-full border border-input bg-background px-2.5 text-xs hover:bg-hover aria-pressed:border-primary aria-pressed:bg-accent"
          onClick={() => onChoose(chosen === state ? undefined : state)}>
          {`${formatNumber(counts[state])} ${t(`statuses.${state}`)}`}
        </button>
      ))}
    </div>
  );
}

/** Return how long the rest takes, from the pace since the page was opened. */
function useTimeLeft(read: number, all: number, isRunning: boolean): string | null {
  const first = useRef<{ read: number; at: number } | null>(null);
  if (!isRunning) first.current = null;
  else first.current ??= { read, at: Date.now() };
  const since = first.current;
  if (since === null || read <= since.read || read >= all) return null;
  const seconds = ((Date.now() - since.at) / 1000 / (read - since.read)) * (all - read);
  return seconds < 90
    ? t('stacks.secondsLeft', { count: Math.max(1, Math.round(seconds)) })
    : t('stacks.minutesLeft', { count: Math.round(seconds / 60) });
}

/** What the agent said at the end of a run: a change in words may not have been understood. */
function RunAnswer({ runId, onClose }: { runId: string; onClose: () => void }) {
  const { data: run } = useQuery(waitingRunQuery(runId));
  if (run?.answer == null || run.answer === '') return null;
  return (
    <div className="flex items-start gap-2 border-b border-border px-4 py-1.5" role="status">
      <CircleHelp size={15} className="mt-1 shrink-0 text-muted-foreground" aria-hidden="true" />
      <div className="min-w-0 flex-1">
        <Markdown text={run.answer} />
      </div>
      <Button kind="quiet" icon={X} label={t('common.dismiss')} onClick={onClose} />
    </div>
  );
}

interface WordsProps {
  isUnread: boolean;
  onSend: (message: string) => Promise<unknown>;
  onClose: () => void;
}

function WordsDialog({ isUnread, onSend, onClose }: WordsProps) {
  const [message, setMessage] = useState('');
  return (
    <Dialog title={t(isUnread ? 'stacks.instructions' : 'stacks.correction')} open onClose={onClose}>
      <Form
        className="grid gap-3"
        onSubmit={() => {
          if (message.trim() !== '') void onSend(message.trim()).then(onClose, () => undefined);
        }}>
        <Input
          autoFocus
          aria-label={t(isUnread ? 'stacks.instructions' : 'stacks.correction')}
          placeholder={t(isUnread ? 'stacks.instructionsHint' : 'stacks.correctionHint')}
          maxLength={8000}
          value={message}
          onValueChange={setMessage}
        />
        <DialogActions
          icon={MessageSquareText}
          label={t(isUnread ? 'stacks.fill' : 'document.correct')}
          disabled={message.trim() === ''}
          onClose={onClose}
        />
      </Form>
    </Dialog>
  );
}
