/** One document: its pages left, its fields right, and the run that reads it between. */

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Box, Extraction } from '../api/types';
import { documentQuery } from '../documents/documentQueries';
import { DropTarget } from '../documents/DropTarget';
import { HistoryDialog } from '../history/HistoryDialog';
import { documentRoute } from '../router';
import { RunPanel } from '../runs/RunPanel';
import { Button } from '../shared/Button';
import { count, plain } from '../shared/format';
import { Empty, Failure, Notice } from '../shared/Notice';
import { Sign } from '../shared/Sign';
import { CorrectBox } from './CorrectBox';
import styles from './DocumentPage.module.css';
import { ExportMenu } from './ExportMenu';
import { ExtractMenu } from './ExtractMenu';
import { FieldPanel } from './fields/FieldPanel';
import { fieldRows, marksByPage, type FieldRow } from './fields/fieldTree';
import { NotReady } from './NotReady';
import { useShownExtraction } from './useShownExtraction';
import { useShownRun } from './useShownRun';
import { PageViewer, type ShownPlace } from './viewer/PageViewer';

const NOTHING: Pick<Extraction, 'extracted_fields' | 'evidence' | 'confidence_scores' | 'locks' | 'proposals'> = {
  extracted_fields: {},
  evidence: {},
  confidence_scores: {},
  locks: {},
  proposals: [],
};

export function DocumentPage() {
  const { documentId } = documentRoute.useParams();
  // Another document is another page: nothing of the last one stays.
  return <OneDocument key={documentId} documentId={documentId} />;
}

function OneDocument({ documentId }: { documentId: string }) {
  const search = documentRoute.useSearch();
  const navigate = useNavigate();
  const document = useQuery(documentQuery(documentId));
  const run = useShownRun(documentId);
  const { extraction, errors, error } = useShownExtraction(documentId, search.extraction, run.state);
  const [chosen, setChosen] = useState<string | null>(search.field ?? null);
  const [historyShown, showHistory] = useState(false);
  const [place, setPlace] = useState<ShownPlace>({ page: search.page ?? 1, at: search.page === undefined ? 0 : 1 });

  const { previews, changed } = run.state;
  const rows = useMemo(
    () => fieldRows({ extraction: extraction ?? NOTHING, previews, ...(errors && { errors }) }),
    [extraction, errors, previews],
  );
  const marks = useMemo(() => marksByPage(rows), [rows]);

  const writing = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(writing.current), []); // not into the address of what was gone to
  const choose = useCallback(
    (path: string) => {
      setChosen(path);
      setPlace((before) => placeOf(rows, path, before));
      // Shown first, then written down: that takes longer, and whoever steps through the fields means the last.
      clearTimeout(writing.current);
      writing.current = setTimeout(() => void navigate({ to: '.', search: (said) => ({ ...said, field: path }), replace: true }), 150);
    },
    [navigate, rows],
  );

  // A field that a link names is shown as soon as it is there.
  const isThere = rows.some((row) => row.path === search.field);
  useEffect(() => {
    if (isThere && search.field !== undefined) setPlace((before) => (before.at === 0 ? placeOf(rows, search.field!, before) : before));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isThere]);

  useEffect(() => {
    const before = window.document.title;
    if (document.data !== undefined) window.document.title = `${plain(document.data.filename)} · Fieldmark`;
    return () => {
      window.document.title = before;
    };
  }, [document.data]);

  if (document.isError) return <Failure error={document.error} again={() => void document.refetch()} />;
  if (document.data === undefined) return null;
  const { filename, status, page_count: pages, warnings } = document.data;
  const isReady = status === 'ready';
  return (
    <div className={styles.page}>
      <DropTarget />
      {historyShown && extraction !== undefined && <HistoryDialog extraction={extraction} onClose={() => showHistory(false)} />}
      <div>
        <div className={styles.bar}>
          <Link to="/documents" aria-label="All documents">
            <Sign name="left" />
          </Link>
          <h1 className="cut" title={plain(filename)}>
            {plain(filename)}
          </h1>
          <ExtractMenu documentId={documentId} disabled={!isReady || run.goesOn} isFirst={extraction === undefined} onStarted={run.start} />
          {extraction !== undefined && <Button onClick={() => showHistory(true)}>History</Button>}
          {extraction !== undefined && <ExportMenu extractionId={extraction.id} name={filename} />}
        </div>
        {warnings.length > 0 && (
          <details className={styles.notices}>
            <summary>{count(warnings.length, 'thing')} in this file could not be read well</summary>
            {warnings.map((warning, index) => (
              <Notice key={index} kind="unsure">
                {warning.page !== null && `Page ${warning.page}: `}
                {warning.message} {warning.excerpt !== '' && <q>{plain(warning.excerpt)}</q>}
              </Notice>
            ))}
          </details>
        )}
      </div>
      {!isReady ? (
        <NotReady document={document.data} />
      ) : (
        <div className={styles.split}>
          <PageViewer documentId={documentId} pages={pages ?? 0} marks={marks} chosen={chosen} place={place} onChoose={choose} />
          <div className={styles.side}>
            <div>
              {run.runId !== null && <RunPanel runId={run.runId} state={run.state} onDecided={run.decided} />}
              {errors !== undefined && errors.length > 0 && (
                <div className={styles.notices}>
                  <Notice kind="unsure">
                    <ul className={styles.problems}>
                      {errors.map((one) => (
                        <li key={one.path + one.code}>{one.message}</li>
                      ))}
                    </ul>
                  </Notice>
                </div>
              )}
              {extraction !== undefined && <CorrectBox extractionId={extraction.id} disabled={run.goesOn} onStarted={run.start} />}
              {error !== null && <Failure error={error} />}
            </div>
            {rows.length > 0 ? (
              <FieldPanel extraction={extraction} rows={rows} chosen={chosen} changed={changed} onChoose={choose} />
            ) : (
              !run.goesOn && (
                <Empty title="No fields yet">
                  <p>“Extract” has the agent read this document. Its fields appear here while it writes them, each with its place on the page.</p>
                </Empty>
              )
            )}
          </div>
        </div>
      )}
    </div>
  );
}

/** Where a field stands; where it stands nowhere, the page stays where it is. */
function placeOf(rows: readonly FieldRow[], path: string, before: ShownPlace): ShownPlace {
  const row = rows.find((one) => one.path === path);
  if (row?.kind !== 'leaf' || row.evidence?.page == null) return before;
  return { page: row.evidence.page, box: row.evidence.boxes?.[0] as Box | undefined, at: before.at + 1 };
}
