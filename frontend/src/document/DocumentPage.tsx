/** One document: its pages, and beside them what needs a person, its fields, unmapped text, chat or activity. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { ApiError } from '../api/client';
import type { Box, Extraction } from '../api/types';
import { useProposedFields } from '../approvals/useProposedFields';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { TabPanel, Tabs } from '../components/ui/Tabs';
import { documentQuery } from '../documents/documentQueries';
import { RunPanel } from '../approvals/RunPanel';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { ActivityPanel } from './ActivityPanel';
import { CorrectBox } from './CorrectBox';
import { DocumentHead } from './DocumentHead';
import { extractionQuery, schemaOfQuery } from '../fields/extractionQueries';
import type { DocumentView } from './documentView';
import { ExportMenu } from './ExportMenu';
import { ExtractMenu } from './ExtractMenu';
import { FieldPanel } from './fields/FieldPanel';
import { loadFieldOrder, saveFieldOrder } from './fields/fieldOrder';
import { type FieldRow, fieldRows, marksByPage, placeOf } from '../fields/fieldTree';
import { MissingRows, useMissingRows, withMissingRows } from './fields/MissingRows';
import { questionsOf } from './fields/NeedsYou';
import { useDecisions } from '../fields/useDecisions';
import { violationText } from '../fields/violationText';
import { MarkReviewed } from './MarkReviewed';
import { NotReady } from './NotReady';
import { PageAndPanel, PageAndPanelToCome } from './PageAndPanel';
import { questionPlace, useAnswers, withAnswers } from '../question/answers';
import { ResultName, ResultSelect } from './ResultSelect';
import { Suggestion } from './Suggestion';
import { schemaFields } from '../fields/schemaFields';
import { useShownExtraction } from './useShownExtraction';
import { useShownRun } from './useShownRun';
import { withUnmapped } from './unmapped/unmappedItems';
import { useUnmapped } from './unmapped/useUnmapped';
import type { ScrollTarget } from '../viewer/PageViewer';
import { warningText } from './warningText';

const documentRoute = getRouteApi('/documents/$documentId');

const ChatPanel = lazy(async () => ({ default: (await import('../chat/ChatPanel')).ChatPanel }));
const UnmappedPanel = lazy(async () => ({ default: (await import('./unmapped/UnmappedPanel')).UnmappedPanel }));

const UNMAPPED = { id: 'document.unmapped', keys: 'u' } as const;
const CHAT = { id: 'document.chat', keys: 'c' } as const;
const NOTHING: Pick<Extraction, 'extracted_fields' | 'evidence' | 'confidence_scores' | 'locks' | 'statuses'> = {
  extracted_fields: {},
  evidence: {},
  confidence_scores: {},
  locks: {},
  statuses: {},
};
const noop = () => undefined;
type Tab = 'fields' | 'unmapped' | 'chat' | 'activity';

export function DocumentPage() {
  const { documentId } = documentRoute.useParams();
  // Remount for another document, so that no state remains.
  return <OneDocument key={documentId} documentId={documentId} />;
}

function OneDocument({ documentId }: { documentId: string }) {
  const navigate = useNavigate();
  const search = documentRoute.useSearch();
  const updateSearch = useUpdateSearch<DocumentView>();
  const queries = useQueryClient();
  const document = useQuery(documentQuery(documentId));
  const run = useShownRun(documentId);
  const current = document.data?.shown_extraction_id;
  const { all, usual, extraction, errors, ruleFixes, error } = useShownExtraction(
    documentId,
    search.extraction,
    run.state,
    current,
    document.isFetching,
  );
  const canWrite = useCanWrite();
  const schemaOf = useQuery({ ...schemaOfQuery(extraction?.id ?? ''), enabled: extraction !== undefined });
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const [chosen, setChosen] = useState<string | null>(search.field ?? null);
  const [place, setPlace] = useState<ScrollTarget>({ page: search.page ?? 1, at: search.page === undefined ? 0 : 1 });

  const waiting = useProposedFields(documentId, extraction?.id);
  const previews = waiting.size > 0 ? waiting : run.state.previews;
  const { saving, onDecide } = useSaving();
  const rows = useMemo(
    () =>
      withSaving(
        fieldRows({
          extraction: extraction ?? NOTHING,
          previews,
          ruleFixes,
          schema,
          hasEmpty: extraction !== undefined,
          ...(errors && { errors }),
          ...(extraction && { order: loadFieldOrder(extraction.id) }),
        }),
        saving,
      ),
    [extraction, errors, previews, ruleFixes, schema, saving],
  );
  useEffect(() => {
    if (extraction !== undefined) saveFieldOrder(extraction.id);
  }, [extraction, rows]);
  const seen = useCallback((id: string) => queries.ensureQueryData(extractionQuery(id)), [queries]);
  const decisions = useDecisions({ seen, mark: noop });

  const questions = useMemo(() => questionsOf(rows, extraction?.proposals ?? []), [rows, extraction?.proposals]);
  const [lastOpen, setLastOpen] = useState<string | null>(null);
  const isQuestion = questions.some((one) => one.path === chosen);
  const open = isQuestion ? chosen : ((questions.find((one) => one.path === lastOpen) ?? questions[0])?.path ?? null);
  const question = questions.find((one) => one.path === open);
  const { answers, isLoading: isAnswering } = useAnswers(extraction, question);

  const [other, setOther] = useState<{ path: string; page: number; box: Box } | null>(null);
  const show = useCallback((page: number, box: Box) => setPlace(({ at }) => ({ page, box, at: at + 1 })), []);
  const showPlace = useCallback(
    (page: number, box: Box) => {
      if (chosen !== null) setOther({ path: chosen, page, box });
      show(page, box);
    },
    [chosen, show],
  );
  const unmapped = useUnmapped(extraction, search.unmapped === true, show);
  const missingRows = useMissingRows(run.running ? undefined : extraction);
  const shownTab: Tab =
    search.chat !== undefined ? 'chat' : search.activity ? 'activity' : search.unmapped ? 'unmapped' : 'fields';
  const tab = extraction === undefined && shownTab === 'unmapped' ? 'fields' : shownTab;
  // Only on the tab Fields the boxes of the answers have answers beside them.
  const isOpenShown = tab === 'fields' && (chosen === null || chosen === open);
  const marks = useMemo(() => {
    const ofFields = withMissingRows(marksByPage(rows, other?.path === chosen ? other : null), missingRows);
    const all = withUnmapped(ofFields, unmapped.items);
    return isOpenShown ? withAnswers(all, answers) : all;
  }, [rows, other, chosen, missingRows, unmapped.items, isOpenShown, answers]);

  const writing = useRef<ReturnType<typeof setTimeout>>(undefined);
  const choose = useCallback(
    (path: string) => {
      if (path.startsWith(' answer')) return;
      if (path.startsWith(' ')) return unmapped.choose(path);
      setChosen(path);
      setLastOpen(path);
      setOther(null);
      setPlace((before) => scrollTargetOf(rows, path, before));
      // Updating the address is slow: do it after the field is shown, and only for the last of several quick steps.
      clearTimeout(writing.current);
      writing.current = setTimeout(() => updateSearch((params) => ({ ...params, field: path })), 150);
    },
    [updateSearch, rows, unmapped.choose],
  );
  // The answers of the question that is open, once they are loaded.
  const { page: answerPage, box: answerBox, chosen: answer } = questionPlace(answers, question, rows);
  const hasAnswers = answers.length > 0 && chosen === open;
  useEffect(() => {
    if (hasAnswers && answerBox !== undefined) show(answerPage, answerBox);
  }, [hasAnswers, open]);

  const showTab = (next: Tab) =>
    updateSearch(({ chat, unmapped: _, activity: __, ...params }) => ({
      ...params,
      ...(next === 'chat' && { chat: chat ?? 'last' }),
      ...(next === 'unmapped' && { unmapped: true as const }),
      ...(next === 'activity' && { activity: true as const }),
    }));
  useShortcut(CHAT, () => showTab(tab === 'chat' ? 'fields' : 'chat'));
  useShortcut(UNMAPPED, () => showTab(tab === 'unmapped' ? 'fields' : 'unmapped'), extraction !== undefined);

  // Scroll to the field in the address once it is loaded.
  const isThere = rows.some((row) => row.path === search.field);
  useEffect(() => {
    if (isThere && search.field !== undefined)
      setPlace((before) => (before.at === 0 ? scrollTargetOf(rows, search.field!, before) : before));
  }, [isThere]);

  useEffect(() => {
    const before = window.document.title;
    if (document.data !== undefined)
      window.document.title = t('common.pageTitle', { title: visibleText(document.data.filename) });
    return () => {
      window.document.title = before;
    };
  }, [document.data]);

  if (document.error instanceof ApiError && document.error.status === 404)
    return (
      <EmptyState title={document.error.message}>
        <Link to="/documents">{t('shell.toDocuments')}</Link>
      </EmptyState>
    );
  if (document.isError) return <ErrorNotice error={document.error} onRetry={() => void document.refetch()} />;
  if (document.data === undefined) return <PageAndPanelToCome />;
  const { filename, status, warnings, stage } = document.data;
  const isCurrent = extraction?.id === document.data.shown_extraction_id;
  const isRunShown = run.runId !== null && (run.running || ['approval', 'failed'].includes(run.state.phase));
  const isLoading = extraction === undefined && error === null && typeof (search.extraction ?? current) === 'string';
  const results = {
    all: all ?? [],
    shown: extraction?.id ?? '',
    current: document.data.shown_extraction_id,
    onChoose: (id: string) =>
      updateSearch(({ extraction: _, ...params }) => (id === usual ? params : { ...params, extraction: id })),
  };
  const broken = (errors ?? []).filter((one) => one.path === '' && one.about.length === 0);
  const leaves = rows.filter((one) => one.kind === 'leaf').length;
  return (
    <div
      className="flex h-full min-h-0 flex-col bg-background"
      data-phase={run.runId === null || isRunShown ? undefined : run.state.phase}>
      <DocumentHead
        document={document.data}
        extraction={extraction}
        open={isCurrent ? questions.length : 0}
        isRunning={run.running || run.state.approval !== null}>
        {canWrite && status === 'ready' && !isLoading && (
          <ExtractMenu
            documentId={documentId}
            tagIds={document.data.tags.map((tag) => tag.id)}
            disabled={run.running}
            isFirst={extraction === undefined}
            onStarted={(id) => void run.start(id)}
          />
        )}
        {extraction !== undefined && <ExportMenu extractionId={extraction.id} name={filename} />}
        {canWrite && isCurrent && ['needs_review', 'extracted'].includes(stage) && (
          <MarkReviewed extraction={extraction!} schema={schema} />
        )}
      </DocumentHead>
      {status !== 'ready' ? (
        <NotReady document={document.data} onDeleted={() => void navigate({ to: '/documents' })} />
      ) : (
        <PageAndPanel
          documentId={documentId}
          marks={marks}
          chosen={unmapped.focused?.id ?? (isOpenShown ? answer : chosen)}
          place={place}
          onChoose={choose}>
          <div className="border-b border-border p-3 empty:hidden">
            <Suggestion document={document.data} canWrite={canWrite} />
          </div>
          <Tabs<Tab>
            className="flex min-h-0 flex-1 flex-col"
            label={t('document.details')}
            value={tab}
            onChange={showTab}
            trailing={<ResultName {...results} />}
            tabs={[
              { value: 'fields', label: t('document.fields'), ...(leaves > 0 && { count: leaves }) },
              ...(extraction === undefined
                ? []
                : [{ value: 'unmapped' as const, label: <Unmapped count={unmapped.count} /> }]),
              { value: 'chat', label: t('document.chat') },
              { value: 'activity', label: t('document.activity') },
            ]}>
            <TabPanel value="fields" className="flex min-h-0 flex-1 flex-col">
              <FieldPanel
                extraction={extraction}
                schema={schema}
                canWrite={canWrite}
                rows={rows}
                questions={questions}
                answers={answers}
                isAnswering={isAnswering}
                open={open}
                chosen={chosen}
                changed={run.changed}
                decisions={decisions}
                onDecide={onDecide}
                onChoose={choose}
                onPlace={showPlace}
                below={
                  extraction !== undefined && (
                    <MissingRows
                      extraction={extraction}
                      schema={schema}
                      lines={missingRows}
                      decisions={decisions}
                      onPlace={show}
                    />
                  )
                }
                foot={
                  canWrite &&
                  extraction !== undefined && (
                    <CorrectBox
                      extractionId={extraction.id}
                      disabled={run.running}
                      onStarted={(id) => void run.start(id)}
                    />
                  )
                }>
                {isRunShown && (
                  <RunPanel
                    runId={run.runId!}
                    state={run.state}
                    canWrite={canWrite}
                    onResume={run.resume}
                    chosen={chosen ?? undefined}
                    onChoose={choose}
                  />
                )}
                <Warnings warnings={warnings} />
                {error !== null && <ErrorNotice error={error} />}
                {broken.length > 0 && (
                  <div className="px-4 pt-3">
                    <Notice kind="unsure">
                      {broken.map((one) => (
                        <p key={one.code + one.message}>{violationText(one, schema)}</p>
                      ))}
                    </Notice>
                  </div>
                )}
                {extraction !== undefined && <ResultSelect {...results} />}
                {isLoading && <Loading />}
                {rows.length === 0 && !isLoading && !isRunShown && (
                  <EmptyState title={t('document.noFields')} text={t('document.noFieldsHint')} />
                )}
              </FieldPanel>
            </TabPanel>
            {extraction !== undefined && (
              <TabPanel value="unmapped" className="flex min-h-0 flex-1 flex-col">
                <fieldset className="contents" disabled={!canWrite}>
                  <Suspense fallback={<Loading />}>
                    <UnmappedPanel extraction={extraction} unmapped={unmapped} />
                  </Suspense>
                </fieldset>
              </TabPanel>
            )}
            <TabPanel value="chat" className="flex min-h-0 flex-1 flex-col">
              <Suspense fallback={<Loading />}>
                {search.chat !== undefined && (
                  <ChatPanel
                    documentId={documentId}
                    chat={search.chat}
                    onOpen={(chat = 'new') => updateSearch((params) => ({ ...params, chat }))}
                    // A late response must not replace what the person opened since.
                    onReplace={(chat = 'new') =>
                      updateSearch((params) => (params.chat === search.chat ? { ...params, chat } : params))
                    }
                    canWrite={canWrite}
                  />
                )}
              </Suspense>
            </TabPanel>
            <TabPanel value="activity" className="flex min-h-0 flex-1 flex-col">
              <ActivityPanel document={document.data} extraction={extraction} schema={schema} canWrite={canWrite} />
            </TabPanel>
          </Tabs>
        </PageAndPanel>
      )}
    </div>
  );
}

function Unmapped({ count }: { count: string | null }) {
  return (
    <>
      {t('document.unmapped')} {count !== null && <span className="font-normal text-muted-foreground">{count}</span>}
    </>
  );
}

function Warnings({ warnings }: { warnings: Parameters<typeof warningText>[0][] }) {
  if (warnings.length === 0) return null;
  const serious = warnings.filter((one) => one.severity === 'warning').length;
  return (
    <details className="px-4 pt-2 text-xs text-muted-foreground">
      <summary className="min-h-6">
        {serious > 0 ? t('document.warnings', { count: serious }) : t('document.notes', { count: warnings.length })}
      </summary>
      {warnings.map((warning, index) => (
        <p key={index} className="py-0.5">
          {warningText(warning)} {warning.excerpt !== '' && <q>{visibleText(warning.excerpt)}</q>}
        </p>
      ))}
    </details>
  );
}

/** The values that are on their way to the service. */
function useSaving() {
  const [saving, setSaving] = useState<ReadonlyMap<string, unknown>>(new Map());
  const onDecide = useCallback((path: string, saved: Promise<boolean>, value?: unknown) => {
    if (value === undefined) return;
    setSaving((before) => new Map(before).set(path, value));
    const clear = () => setSaving((before) => new Map([...before].filter(([at, one]) => at !== path || one !== value)));
    void saved.then(clear, clear);
  }, []);
  return { saving, onDecide };
}

function withSaving(rows: FieldRow[], saving: ReadonlyMap<string, unknown>): FieldRow[] {
  if (saving.size === 0) return rows;
  return rows.map((row) =>
    row.kind === 'leaf' && saving.has(row.path)
      ? { ...row, value: saving.get(row.path), status: 'saving', reason: null, errors: [] }
      : row,
  );
}

/** Return the location of a field; the previous target if it has none. */
function scrollTargetOf(rows: readonly FieldRow[], path: string, before: ScrollTarget): ScrollTarget {
  const place = placeOf(
    rows,
    rows.find((one) => one.path === path),
  );
  return place === undefined ? before : { page: place.page, box: place.box, at: before.at + 1 };
}
