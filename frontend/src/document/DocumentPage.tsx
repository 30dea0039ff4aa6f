/** One document: its pages left, its fields right, and the run that reads it between. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { lazy, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Box, Extraction } from '../api/types';
import { useProposedFields } from '../approvals/useProposedFields';
import { documentQuery } from '../documents/documentQueries';
import { listPosition, useNeighbours } from '../documents/listPosition';
import { StageBadge } from '../documents/StageBadge';
import { DropTarget } from '../documents/DropTarget';
import { HistoryDialog } from '../history/HistoryDialog';
import { fieldsToReview } from '../review/fieldsToReview';
import { documentRoute } from '../router';
import { RunPanel } from '../runs/RunPanel';
import { useCanWrite } from '../session/role';
import { Button } from '../shared/Button';
import { count, visibleText } from '../shared/format';
import { Loading } from '../shared/Loading';
import { EmptyState, ErrorNotice, Notice } from '../shared/Notice';
import { Icon } from '../shared/Icon';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { CorrectBox } from './CorrectBox';
import styles from './DocumentPage.module.css';
import { ExportMenu } from './ExportMenu';
import { ExtractMenu } from './ExtractMenu';
import { FieldPanel } from './fields/FieldPanel';
import { fieldRows, marksByPage, type FieldRow } from './fields/fieldTree';
import { loadFieldOrder, saveFieldOrder } from './fields/fieldOrder';
import { BrokenRules } from './BrokenRules';
import { schemaOfQuery } from './documentPageQueries';
import { ExtractionPicker } from './ExtractionPicker';
import { MarkReviewed } from './MarkReviewed';
import { schemaFields } from './schemaFields';
import { NotReady } from './NotReady';
import { ProposalBanner } from './ProposalBanner';
import type { Place } from './documentView';
import { DocumentSidebar } from './DocumentSidebar';
import { withUnmapped } from './unmapped/unmappedItems';
import { useUnmapped } from './unmapped/useUnmapped';
import { useShownExtraction } from './useShownExtraction';
import { useShownRun } from './useShownRun';
import { PageViewer, type ScrollTarget } from './viewer/PageViewer';

const UnmappedPanel = lazy(async () => ({ default: (await import('./unmapped/UnmappedPanel')).UnmappedPanel }));

const NOTHING: Pick<Extraction, 'extracted_fields' | 'evidence' | 'confidence_scores' | 'locks' | 'proposals'> = {
  extracted_fields: {},
  evidence: {},
  confidence_scores: {},
  locks: {},
  proposals: [],
};

const NONE: ReadonlySet<string> = new Set();


export function DocumentPage() {
  const { documentId } = documentRoute.useParams();
  // Another document is another page: nothing of the last one stays.
  return <OneDocument key={documentId} documentId={documentId} />;
}

function OneDocument({ documentId }: { documentId: string }) {
  const search = documentRoute.useSearch();
  const changeAddress = useUpdateSearch<Place>();
  const document = useQuery(documentQuery(documentId));
  const run = useShownRun(documentId);
  const current = document.data?.current_extraction_id;
  const { all, usual, extraction, errors, readings, error } = useShownExtraction(documentId, search.extraction, run.state, current, document.isFetching);
  const isLoading = rowsAreLoading(extraction, error, search.extraction ?? current);
  const canWrite = useCanWrite();
  const { before, after } = useNeighbours(documentId);
  const schemaOf = useQuery({ ...schemaOfQuery(extraction?.id ?? ''), enabled: extraction !== undefined });
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const [chosen, setChosen] = useState<string | null>(search.field ?? null);
  const [historyShown, showHistory] = useState(false);
  const [place, setPlace] = useState<ScrollTarget>({ page: search.page ?? 1, at: search.page === undefined ? 0 : 1 });

  const { changed } = run.state;
  const waiting = useProposedFields(documentId, extraction?.id);
  const previews = waiting.size > 0 ? waiting : run.state.previews;
  const rows = useMemo(
    () => fieldRows({ extraction: extraction ?? NOTHING, previews, readings, schema, ...(errors && { errors }), ...(extraction && { places: loadFieldOrder(extraction.id) }) }),
    [extraction, errors, previews, readings, schema],
  );
  useEffect(() => {
    if (extraction !== undefined) saveFieldOrder(extraction.id);
  }, [extraction, rows]);
  const toCheck = useMemo(() => fieldsToReview(rows, NONE).length, [rows]);
  const undecided = useMemo(() => rows.filter((row) => row.kind === 'leaf' && ['proposal', 'not_found', 'unsure'].includes(row.status)).length, [rows]);
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
      setPlace((before) => placeOf(rows, path, before));
      // Shown first, then written down: that takes longer, and whoever steps through the fields means the last.
      clearTimeout(writing.current);
      writing.current = setTimeout(() => changeAddress((said) => ({ ...said, field: path })), 150);
    },
    [changeAddress, rows, unmapped.choose],
  );

  const showBeside = useCallback(
    (beside: Pick<Place, 'chat' | 'unmapped'>) => changeAddress(({ chat: _, unmapped: __, ...said }) => ({ ...said, ...beside })),
    [changeAddress],
  );
  // An answer that comes late takes nobody away from what they opened since.
  const replaceChat = (chat: string) => changeAddress((said) => (said.chat === search.chat ? { ...said, chat } : said));

  // A field that a link names is shown as soon as it is there.
  const isThere = rows.some((row) => row.path === search.field);
  useEffect(() => {
    if (isThere && search.field !== undefined) setPlace((before) => (before.at === 0 ? placeOf(rows, search.field!, before) : before));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isThere]);

  useEffect(() => {
    const before = window.document.title;
    if (document.data !== undefined) window.document.title = `${visibleText(document.data.filename)} · Fieldmark`;
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
    <FieldPanel extraction={extraction} schema={schema} canWrite={canWrite} rows={rows} chosen={chosen} changed={changed} readings={readings} onChoose={choose} onPlace={showPlace} />
  );
  return (
    <div className={styles.page}>
      {canWrite && <DropTarget />}
      {historyShown && extraction !== undefined && (
        <HistoryDialog extraction={extraction} suggestedBy={document.data.auto_create?.run_id} canWrite={canWrite} onClose={() => showHistory(false)} />
      )}
      <div>
        <div className={styles.bar}>
          <Link to="/documents" search={listPosition.filter} aria-label="All documents">
            <Icon name="left" />
          </Link>
          <h1 className="truncate" title={visibleText(filename)}>
            {visibleText(filename)}
          </h1>
          <StageBadge document={document.data} />
          {before !== undefined && (
            <Link to="/documents/$documentId" params={{ documentId: before }} className={styles.step}>
              Previous
            </Link>
          )}
          {after !== undefined && (
            <Link to="/documents/$documentId" params={{ documentId: after }} className={styles.step}>
              Next
            </Link>
          )}
          {extraction !== undefined && (
            <ExtractionPicker
              all={all ?? []}
              shown={extraction.id}
              current={document.data.current_extraction_id}
              onChoose={(id) => changeAddress(({ extraction: _, ...said }) => (id === usual ? said : { ...said, extraction: id }))}
            />
          )}
          {canWrite && extraction?.id === document.data.current_extraction_id && ['needs_review', 'extracted'].includes(document.data.stage) && (
            <MarkReviewed extraction={extraction!} open={undecided} />
          )}
          {canWrite && <ExtractMenu documentId={documentId} disabled={!isReady || run.running} isFirst={extraction === undefined} onStarted={(id) => void run.start(id)} />}
          {extraction !== undefined && <Button onClick={() => showHistory(true)}>History</Button>}
          {extraction !== undefined && <ExportMenu extractionId={extraction.id} name={filename} />}
        </div>
        <ProposalBanner document={document.data} canWrite={canWrite} />
        {warnings.length > 0 && (
          <details className={styles.notices}>
            <summary>{serious > 0 ? count(serious, 'warning') : count(warnings.length, 'note')}</summary>
            {warnings.map((warning, index) => (
              <Notice key={index} kind={warning.severity === 'info' ? 'plain' : 'unsure'}>
                {warning.page !== null && `Page ${warning.page}: `}
                {warning.message} {warning.excerpt !== '' && <q>{visibleText(warning.excerpt)}</q>}
              </Notice>
            ))}
          </details>
        )}
      </div>
      {!isReady ? (
        <NotReady document={document.data} />
      ) : (
        <div className={styles.split}>
          <PageViewer documentId={documentId} pages={pages ?? 0} marks={marks} chosen={unmapped.focused?.id ?? chosen} place={place} onChoose={choose} />
          <DocumentSidebar
            chat={search.chat}
            documentId={documentId}
            fields={rows.length}
            unmapped={extraction === undefined ? null : { ...unmapped, panel: () => <UnmappedPanel extraction={extraction} unmapped={unmapped} /> }}
            onShow={showBeside}
            onReplaceChat={replaceChat}
            canWrite={canWrite}
            fieldsBeside={
              <details className={styles.fieldsBeside}>
                <summary>Fields {rows.length > 0 && <span className="muted">{rows.length.toLocaleString()}</span>}</summary>
                {rows.length > 0 ? <div>{fieldPanel}</div> : <p className="muted">No fields yet.</p>}
              </details>
            }
          >
            <div>
              {run.runId !== null && <RunPanel runId={run.runId} state={run.state} canWrite={canWrite} onResume={run.resume} />}
              {errors !== undefined && errors.length > 0 && <BrokenRules errors={errors} onChoose={choose} />}
              {canWrite && extraction !== undefined && <CorrectBox extractionId={extraction.id} disabled={run.running} onStarted={(id) => void run.start(id)} />}
              {error !== null && <ErrorNotice error={error} />}
              {extraction !== undefined && toCheck > 0 && !run.running && (
                <p className={styles.toCheck}>
                  <Link to="/review" search={{ extraction: extraction.id }}>
                    Review {count(toCheck, 'value')}
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
                <EmptyState title="No fields yet">
                  <p>Extract to fill in the fields. Each value links to its place on the page.</p>
                </EmptyState>
              )
            )}
          </DocumentSidebar>
        </div>
      )}
    </div>
  );
}

/** Whether the fields are on their way: which extraction it is is known, and the extraction is not. */
function rowsAreLoading(extraction: Extraction | undefined, error: unknown, id: string | null | undefined): boolean {
  return extraction === undefined && error === null && typeof id === 'string';
}

/** Where a field stands; where it stands nowhere, the page stays where it is. */
function placeOf(rows: readonly FieldRow[], path: string, before: ScrollTarget): ScrollTarget {
  const row = rows.find((one) => one.path === path);
  if (row?.kind !== 'leaf' || row.evidence?.page == null) return before;
  return { page: row.evidence.page, box: row.evidence.boxes?.[0] as Box | undefined, at: before.at + 1 };
}
