/** One document: its pages on the left, its fields, unmapped text or chat on the right. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Box, Extraction } from '../api/types';
import { useProposedFields } from '../approvals/useProposedFields';
import { documentQuery } from '../documents/documentQueries';
import { listPosition, useNeighbours } from '../documents/listPosition';
import { StageBadge } from '../documents/StageBadge';
import { HistoryDialog } from '../history/HistoryDialog';
import { RunPanel } from '../runs/RunPanel';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { Icon } from '../shared/Icon';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { CorrectBox } from './CorrectBox';
import styles from './DocumentPage.module.css';
import { warningText } from './warningText';
import { ExportMenu } from './ExportMenu';
import { ExtractMenu } from './ExtractMenu';
import { FieldPanel } from './fields/FieldPanel';
import { fieldRows, marksByPage, type FieldRow } from './fields/fieldTree';
import { loadFieldOrder, saveFieldOrder } from './fields/fieldOrder';
import { BrokenRules } from './BrokenRules';
import { schemaOfQuery } from './documentPageQueries';
import { ExtractionPicker, OtherResult } from './ExtractionPicker';
import { MarkReviewed } from './MarkReviewed';
import { schemaFields } from './schemaFields';
import { NotReady } from './NotReady';
import { ProposalBanner } from './ProposalBanner';
import type { DocumentView } from './documentView';
import { DocumentSidebar } from './DocumentSidebar';
import { withUnmapped } from './unmapped/unmappedItems';
import { useUnmapped } from './unmapped/useUnmapped';
import { useShownExtraction } from './useShownExtraction';
import { useShownRun } from './useShownRun';
import { PageViewer, type ScrollTarget } from './viewer/PageViewer';

const documentRoute = getRouteApi('/documents/$documentId');

const UnmappedPanel = lazy(async () => ({ default: (await import('./unmapped/UnmappedPanel')).UnmappedPanel }));

const NOTHING: Pick<Extraction, 'extracted_fields' | 'evidence' | 'confidence_scores' | 'locks' | 'statuses'> = {
  extracted_fields: {},
  evidence: {},
  confidence_scores: {},
  locks: {},
  statuses: {},
};

export function DocumentPage() {
  const { documentId } = documentRoute.useParams();
  // Remount for another document, so that no state remains.
  return <OneDocument key={documentId} documentId={documentId} />;
}

function OneDocument({ documentId }: { documentId: string }) {
  const search = documentRoute.useSearch();
  const updateSearch = useUpdateSearch<DocumentView>();
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
  const isLoading = rowsAreLoading(extraction, error, search.extraction ?? current);
  const canWrite = useCanWrite();
  const { before, after } = useNeighbours(documentId);
  const schemaOf = useQuery({ ...schemaOfQuery(extraction?.id ?? ''), enabled: extraction !== undefined });
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const [chosen, setChosen] = useState<string | null>(search.field ?? null);
  const chooseExtraction = (id: string) =>
    updateSearch(({ extraction: _, ...params }) => (id === usual ? params : { ...params, extraction: id }));
  const [historyShown, showHistory] = useState(false);
  const [place, setPlace] = useState<ScrollTarget>({ page: search.page ?? 1, at: search.page === undefined ? 0 : 1 });

  const { changed } = run.state;
  const waiting = useProposedFields(documentId, extraction?.id);
  const previews = waiting.size > 0 ? waiting : run.state.previews;
  const rows = useMemo(
    () =>
      fieldRows({
        extraction: extraction ?? NOTHING,
        previews,
        ruleFixes,
        schema,
        ...(errors && { errors }),
        ...(extraction && { order: loadFieldOrder(extraction.id) }),
      }),
    [extraction, errors, previews, ruleFixes, schema],
  );
  useEffect(() => {
    if (extraction !== undefined) saveFieldOrder(extraction.id);
  }, [extraction, rows]);
  const toCheck = extraction?.review_count ?? 0;
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
  const marks = useMemo(
    () => withUnmapped(marksByPage(rows, other?.path === chosen ? other : null), unmapped.items),
    [rows, other, chosen, unmapped.items],
  );

  const writing = useRef<ReturnType<typeof setTimeout>>(undefined);
  const choose = useCallback(
    (path: string) => {
      if (path.startsWith(' ')) return unmapped.choose(path);
      setChosen(path);
      setOther(null);
      setPlace((before) => scrollTargetOf(rows, path, before));
      // Updating the address is slow: do it after the field is shown, and only for the last of several quick steps.
      clearTimeout(writing.current);
      writing.current = setTimeout(() => updateSearch((params) => ({ ...params, field: path })), 150);
    },
    [updateSearch, rows, unmapped.choose],
  );

  const showBeside = useCallback(
    (beside: Pick<DocumentView, 'chat' | 'unmapped'>) =>
      updateSearch(({ chat: _, unmapped: __, ...params }) => ({ ...params, ...beside })),
    [updateSearch],
  );
  // A late response must not replace what the person opened since.
  const replaceChat = (chat: string) =>
    updateSearch((params) => (params.chat === search.chat ? { ...params, chat } : params));

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

  if (document.isError) return <ErrorNotice error={document.error} onRetry={() => void document.refetch()} />;
  if (document.data === undefined) return <Loading />;
  const { filename, status, page_count: pages, warnings } = document.data;
  const serious = warnings.filter((one) => one.severity === 'warning').length;
  const isReady = status === 'ready';
  const fieldPanel = (
    <FieldPanel
      extraction={extraction}
      schema={schema}
      canWrite={canWrite}
      rows={rows}
      chosen={chosen}
      changed={changed}
      ruleFixes={ruleFixes}
      onChoose={choose}
      onPlace={showPlace}
    />
  );
  return (
    <div className={styles.page}>
      {historyShown && extraction !== undefined && (
        <HistoryDialog
          extraction={extraction}
          schema={schema}
          suggestedBy={document.data.auto_create?.run_id}
          canWrite={canWrite}
          onClose={() => showHistory(false)}
        />
      )}
      <div>
        <div className={styles.bar}>
          <Link to="/documents" search={listPosition.filter} aria-label={t('document.all')}>
            <Icon name="left" />
          </Link>
          <h1 className="truncate" title={visibleText(filename)}>
            {visibleText(filename)}
          </h1>
          <StageBadge document={document.data} />
          {before !== undefined && (
            <Link to="/documents/$documentId" params={{ documentId: before }} className={styles.step}>
              {t('document.previous')}
            </Link>
          )}
          {after !== undefined && (
            <Link to="/documents/$documentId" params={{ documentId: after }} className={styles.step}>
              {t('document.next')}
            </Link>
          )}
          {extraction !== undefined && (
            <ExtractionPicker
              all={all ?? []}
              shown={extraction.id}
              current={document.data.shown_extraction_id}
              onChoose={chooseExtraction}
            />
          )}
          {canWrite &&
            extraction?.id === document.data.shown_extraction_id &&
            ['needs_review', 'extracted'].includes(document.data.stage) && (
              <MarkReviewed extraction={extraction!} schema={schema} />
            )}
          {canWrite && (
            <ExtractMenu
              documentId={documentId}
              tagIds={document.data.tags.map((tag) => tag.id)}
              disabled={!isReady || run.running}
              isFirst={extraction === undefined}
              onStarted={(id) => void run.start(id)}
            />
          )}
          {extraction !== undefined && <Button onClick={() => showHistory(true)}>{t('document.history')}</Button>}
          {extraction !== undefined && <ExportMenu extractionId={extraction.id} name={filename} />}
        </div>
        <ProposalBanner document={document.data} canWrite={canWrite} />
        {warnings.length > 0 && (
          <details className={styles.notices}>
            <summary>
              {serious > 0
                ? t('document.warnings', { count: serious })
                : t('document.notes', { count: warnings.length })}
            </summary>
            {warnings.map((warning, index) => (
              <Notice key={index} kind={warning.severity === 'info' ? 'plain' : 'unsure'}>
                {warningText(warning)} {warning.excerpt !== '' && <q>{visibleText(warning.excerpt)}</q>}
              </Notice>
            ))}
          </details>
        )}
      </div>
      {!isReady ? (
        <NotReady document={document.data} />
      ) : (
        <div className={styles.split}>
          <PageViewer
            documentId={documentId}
            pages={pages ?? 0}
            marks={marks}
            chosen={unmapped.focused?.id ?? chosen}
            place={place}
            onChoose={choose}
          />
          <DocumentSidebar
            chat={search.chat}
            documentId={documentId}
            fields={rows.length}
            unmapped={
              extraction === undefined
                ? null
                : { ...unmapped, panel: () => <UnmappedPanel extraction={extraction} unmapped={unmapped} /> }
            }
            onShow={showBeside}
            onReplaceChat={replaceChat}
            canWrite={canWrite}
            fieldsBeside={
              <details className={styles.fieldsBeside}>
                <summary>
                  {t('document.fields')} {rows.length > 0 && <span className="muted">{formatNumber(rows.length)}</span>}
                </summary>
                {rows.length > 0 ? <div>{fieldPanel}</div> : <p className="muted">{t('document.noFields')}</p>}
              </details>
            }>
            <div>
              {run.runId !== null && (
                <RunPanel runId={run.runId} state={run.state} canWrite={canWrite} onResume={run.resume} />
              )}
              {errors !== undefined && errors.length > 0 && (
                <BrokenRules errors={errors} schema={schema} onChoose={choose} />
              )}
              {canWrite && extraction !== undefined && (
                <CorrectBox
                  extractionId={extraction.id}
                  disabled={run.running}
                  onStarted={(id) => void run.start(id)}
                />
              )}
              {error !== null && <ErrorNotice error={error} />}
              {extraction !== undefined && !run.running && (
                <OtherResult
                  all={all ?? []}
                  shown={extraction.id}
                  current={document.data.shown_extraction_id}
                  onChoose={chooseExtraction}
                />
              )}
              {extraction !== undefined && toCheck > 0 && !run.running && (
                <p className={styles.toCheck}>
                  <Link to="/review" search={{ extraction: extraction.id }}>
                    {t('document.reviewValues', { count: toCheck })}
                  </Link>
                </p>
              )}
            </div>
            {isLoading ? (
              <Loading />
            ) : rows.length > 0 ? (
              fieldPanel
            ) : (
              !run.running &&
              run.state.approval === null && (
                <EmptyState title={t('document.noFields')}>
                  <p>{t('document.noFieldsHint')}</p>
                </EmptyState>
              )
            )}
          </DocumentSidebar>
        </div>
      )}
    </div>
  );
}

/** Whether the extraction's id is known but the extraction is not loaded yet. */
function rowsAreLoading(extraction: Extraction | undefined, error: unknown, id: string | null | undefined): boolean {
  return extraction === undefined && error === null && typeof id === 'string';
}

/** Return the location of a field; the previous target if it has none. */
function scrollTargetOf(rows: readonly FieldRow[], path: string, before: ScrollTarget): ScrollTarget {
  const row = rows.find((one) => one.path === path);
  if (row?.kind !== 'leaf' || row.evidence?.page == null) return before;
  return { page: row.evidence.page, box: row.evidence.boxes?.[0] as Box | undefined, at: before.at + 1 };
}
