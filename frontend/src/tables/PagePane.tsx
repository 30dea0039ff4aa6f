/** The page beside the table: at the box of the active cell, with the question about it. For a cell without a value, the
 * whole page, on which a word can be picked. */

import { useQuery } from '@tanstack/react-query';
import { ChevronDown, ChevronUp, Maximize2, X } from 'lucide-react';
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef } from 'react';
import type { Box, Evidence, ReadRow, RecordRow } from '../api/types';
import { Button } from '../components/ui/Button';
import { Kbd } from '../components/ui/Kbd';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { StatusPill } from '../components/ui/StatusPill';
import { Discussion } from '../document/Discussion';
import { needsPerson } from '../fields/fieldStatus';
import { marksByPage } from '../fields/fieldTree';
import { questionPlace, useAnswers, withAnswers } from '../question/answers';
import { Question } from '../question/Question';
import { PageViewer } from '../viewer/PageViewer';
import { useWordPicker } from '../viewer/picking';
import { documentQuery } from '../documents/documentQueries';
import type { Decisions } from '../fields/useDecisions';
import { formatPercent, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { persisted, usePersisted } from '../shared/persisted';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import {
  canReadAgain,
  cellIcon,
  cellStatus,
  cellStatusText,
  isBeingRead,
  isRead,
  needsLook,
  rowProblem,
  RowState,
} from './cellStatus';
import { displayCell } from './cellValue';
import { clamp } from './grid';
import { cellPath, type GridColumn } from './gridColumns';
import { useStoredFields } from '../question/useStoredFields';

const [LEAST, MOST, STEP] = [320, 720, 24]; // pixels
const NEXT = { id: 'table.next', keys: 'j' } as const;
const PREVIOUS = { id: 'table.previous', keys: 'k' } as const;

/** `isOpen`: null until the person chooses; then it is open where there is room for both. */
export const pane = persisted<{ isOpen: boolean | null; width: number }>('fieldmark.pane', (stored) => {
  const { isOpen, width } = (stored ?? {}) as { isOpen?: unknown; width?: unknown };
  return {
    isOpen: typeof isOpen === 'boolean' ? isOpen : null,
    width:
      typeof width === 'number' ? clamp(width, LEAST, MOST) : innerWidth < 1400 ? LEAST : innerWidth < 1600 ? 376 : 420,
  };
});

interface Props {
  row: RecordRow;
  column: GridColumn | undefined;
  /** Why the value is unusual. */
  outlier: string | undefined;
  canWrite: boolean;
  /** Increases with each request to focus the first answer. */
  focuses: number;
  decisions: Decisions;
  onDecided: (row: ReadRow, column: GridColumn, saved: Promise<boolean>) => void;
  onConfirm: (row: ReadRow, column: GridColumn) => void;
  /** Save a word of the page. */
  onEdit: (row: ReadRow, column: GridColumn, text: string) => void;
  /** To the next value that needs a look, or the one before. */
  onMove: (by: 1 | -1) => void;
  onOpen: () => void;
  onReadAgain: (() => void) | undefined;
  /** Close the pane; the table gets the focus. */
  onClose: () => void;
  onLeave: () => void;
}

export function PagePane(props: Props) {
  const { row, column, onMove, onClose, onLeave, onOpen } = props;
  const { width } = usePersisted(pane);
  useShortcut(NEXT, () => onMove(1));
  useShortcut(PREVIOUS, () => onMove(-1));
  const cell = column === undefined ? undefined : row.cells[column.path];
  return (
    <aside
      data-pane
      aria-label={t('tables.pane')}
      tabIndex={-1}
      className="relative flex min-h-0 shrink-0 flex-col border-border bg-canvas outline-none max-xl:absolute max-xl:inset-y-0 max-xl:right-0 max-xl:z-10 max-xl:max-w-full max-xl:shadow-lg max-sm:top-auto max-sm:h-[62%] max-sm:w-full! max-sm:border-t sm:border-l"
      style={{ width }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || event.defaultPrevented) return;
        event.preventDefault();
        onLeave();
      }}>
      <Divider />
      <div className="flex h-9 shrink-0 items-center gap-1 border-b border-border bg-background pr-2 pl-3">
        <h2 className="min-w-0 truncate text-sm font-semibold">{visibleText(row.filename)}</h2>
        {cell?.page != null && (
          <span className="shrink-0 text-xs text-muted-foreground">{t('common.pageFirst', { page: cell.page })}</span>
        )}
        <span className="flex-1" />
        <Button kind="quiet" icon={ChevronUp} label={t('tables.previousValue')} keys="K" onClick={() => onMove(-1)} />
        <Button kind="quiet" icon={ChevronDown} label={t('tables.nextValue')} keys="J" onClick={() => onMove(1)} />
        <Button kind="quiet" icon={Maximize2} label={t('tables.openDocument')} keys="⇧↵" onClick={onOpen} />
        <Button kind="quiet" icon={X} label={t('tables.hidePane')} onClick={onClose} />
      </div>
      {isRead(row) ? <Value {...props} row={row} /> : <Unread {...props} />}
      <p
        aria-hidden="true"
        className="flex h-8 shrink-0 items-center justify-end gap-3 border-t border-border bg-background px-3 text-xs text-muted-foreground max-sm:hidden">
        <span className="flex items-center gap-1">
          <Kbd>{t('tables.space')}</Kbd> {t('tables.hidePane')}
        </span>
        <span className="flex items-center gap-1">
          <Kbd>Esc</Kbd> {t('tables.toTable')}
        </span>
      </p>
    </aside>
  );
}

/** The left edge: dragging it, or the arrow keys, resize the pane. */
function Divider() {
  const { isOpen, width } = usePersisted(pane);
  const from = useRef<{ x: number; width: number } | null>(null);
  const resize = (to: number) => pane.set({ isOpen, width: clamp(to, LEAST, MOST) });
  return (
    <div
      role="separator"
      tabIndex={0}
      aria-label={t('tables.paneWidth')}
      aria-orientation="vertical"
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      aria-valuenow={width}
      className="absolute inset-y-0 -left-1 z-10 w-2 cursor-col-resize touch-none hover:bg-primary/30 focus-visible:bg-primary/30 max-sm:hidden"
      onKeyDown={(event: KeyboardEvent) => {
        const by = event.key === 'ArrowLeft' ? STEP : event.key === 'ArrowRight' ? -STEP : 0;
        if (by !== 0) resize(width + by);
      }}
      onPointerDown={(event: PointerEvent) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { x: event.clientX, width };
      }}
      onPointerMove={(event: PointerEvent) => {
        if (from.current !== null) resize(from.current.width + from.current.x - event.clientX);
      }}
      onPointerUp={() => {
        from.current = null;
      }}
    />
  );
}

const CARD = 'm-3 rounded-lg border border-border bg-background p-3 shadow-sm';

function Unread({ row, onReadAgain, canWrite }: Props) {
  const problem = rowProblem(row);
  return (
    <>
      <section className={CARD} aria-label={t('tables.status')}>
        <RowState row={row} />
        {problem !== undefined && <p className="mt-1 wrap-anywhere">{problem}</p>}
        {canWrite && onReadAgain !== undefined && canReadAgain(row) && (
          <Button className="mt-2" onClick={onReadAgain}>
            {t('tables.readAgain')}
          </Button>
        )}
      </section>
      <Page documentId={row.document_id} page={1} />
    </>
  );
}

function Value(props: Props & { row: ReadRow }) {
  const { row, column, outlier, canWrite, decisions } = props;
  const cell = column === undefined ? undefined : row.cells[column.path];
  const path = column === undefined ? null : (cell?.path ?? cellPath(column.path, row.path));
  // A proposal does not change the version: one that is not shown yet may have come since.
  const isProposed = cell?.reason === 'proposal';
  const { stored, error, schema, rows: fields } = useStoredFields(row.extraction_id, { isFresh: isProposed });
  const field = fields.find((one) => one.path === path);
  // Values of a row that is being read are still to come, and the row may be older than the values.
  const isAsked = field !== undefined && needsLook(cell) && needsPerson(field) && !isBeingRead(row);
  const { answers, isLoading } = useAnswers(isAsked ? stored : undefined, isAsked ? field : undefined);
  const marks = useMemo(() => withAnswers(marksByPage(fields), isAsked ? answers : []), [fields, answers, isAsked]);
  const { page, box, chosen } = questionPlace(isAsked ? answers : [], field, fields);
  const problem = column === undefined ? rowProblem(row) : undefined;
  const isReady = stored !== undefined && !isLoading;
  const question = useFocusedAnswer(props.focuses, isReady, `${row.extraction_id} ${path}`);
  if (error !== null) return <ErrorNotice error={error} />;
  const text = cell === undefined || column === undefined ? '' : displayCell(cell, column);
  const evidence = field?.kind === 'leaf' ? (field.evidence as Evidence | undefined) : undefined;
  const Sign = cellIcon(cellStatus(cell));
  const isDecided = cell?.status === 'confirmed' || cell?.status === 'accepted';
  return (
    <>
      <div className="max-h-[60%] shrink-0 overflow-y-auto" ref={question}>
        {!isReady ? (
          <Loading lines={2} />
        ) : isAsked ? (
          <div className="p-3">
            <Question
              key={`${row.extraction_id} ${path}`}
              extraction={stored}
              field={field}
              schema={schema}
              answers={answers}
              decisions={decisions}
              takesFocus={false}
              startMode={field.reason === 'missing' && answers.length === 0 ? 'pick' : 'answers'}
              onDecided={(_, saved) => props.onDecided(row, column!, saved)}
            />
          </div>
        ) : (
          <section className={CARD} aria-label={t('tables.sourceOf', { field: column?.label ?? t('tables.status') })}>
            <div className="flex items-center gap-2">
              <b className="min-w-0 truncate font-semibold">{column?.label ?? t('tables.status')}</b>
              <span className="flex-1" />
              {column === undefined ? (
                <RowState row={row} />
              ) : (
                <StatusPill tone={isDecided ? 'ok' : cell?.status === 'stale' ? 'need' : 'plain'} icon={Sign}>
                  {cellStatusText(cell, evidence)}
                </StatusPill>
              )}
            </div>
            {column !== undefined && (
              <p className="mt-1 max-h-32 overflow-auto text-lg wrap-anywhere">
                {text || <span className="text-faint">{t('fields.nothing')}</span>}
                {!isDecided && cell?.confidence != null && (
                  <span className="ml-2 text-xs text-muted-foreground">{formatPercent(cell.confidence)}</span>
                )}
              </p>
            )}
            {cell?.quote != null && cell.quote !== String(cell.value) && (
              <p className="text-xs text-muted-foreground wrap-anywhere">
                {t('tables.printed', { quote: cell.quote })}
              </p>
            )}
            {outlier !== undefined && <p className="mt-1 text-need">{outlier}</p>}
            {problem !== undefined && <p className="mt-1 wrap-anywhere">{problem}</p>}
            {canWrite && column !== undefined && text === '' && (
              <>
                <Picker onPick={(words) => props.onEdit(row, column, words)} />
                <p className="mt-1 text-xs text-link">{t('inbox.pickHint')}</p>
              </>
            )}
            {canWrite && (
              <div className="mt-2 flex flex-wrap gap-2 empty:hidden">
                {column !== undefined && text !== '' && !isDecided && (
                  <Button keys="⌘↵" onClick={() => props.onConfirm(row, column)}>
                    {t('common.confirm')}
                  </Button>
                )}
                {column === undefined && props.onReadAgain !== undefined && canReadAgain(row) && (
                  <Button onClick={props.onReadAgain}>{t('tables.readAgain')}</Button>
                )}
              </div>
            )}
          </section>
        )}
        <Discussion documentId={row.document_id} path={path} className="px-4 pb-3 max-sm:hidden" />
      </div>
      <Page documentId={row.document_id} page={page} box={box} chosen={chosen} marks={marks} of={path} />
    </>
  );
}

/** Focus the first answer when asked to, and that of each question that follows while the focus is in the pane. */
function useFocusedAnswer(focuses: number, isReady: boolean, question: string) {
  const element = useRef<HTMLDivElement>(null);
  const state = useRef<{ focuses: number; is: 'asked' | 'here' | 'away' }>({ focuses, is: 'away' });
  useEffect(() => {
    if (state.current.focuses !== focuses) state.current = { focuses, is: 'asked' };
    if (!isReady || state.current.is === 'away') return;
    const [now, pane] = [document.activeElement, element.current?.closest<HTMLElement>('[data-pane]')];
    const isAway = state.current.is === 'here' && now !== document.body && pane?.contains(now) !== true;
    state.current = { focuses, is: isAway ? 'away' : 'here' };
    const card = element.current?.querySelector('section');
    const first =
      card?.querySelector<HTMLElement>('[data-first]') ??
      (card?.hasAttribute('tabindex') === true ? card : card?.querySelector<HTMLElement>('button:not(:disabled)'));
    if (!isAway) (first ?? pane)?.focus({ preventScroll: true });
  }, [focuses, isReady, question]);
  return element;
}

/** A click on a word of the page fills in the cell. */
function Picker({ onPick }: { onPick: (words: string) => void }) {
  useWordPicker((words) => onPick(words));
  return null;
}

interface PageProps {
  documentId: string;
  page: number;
  box?: Box | undefined;
  chosen?: string | null;
  marks?: Parameters<typeof PageViewer>[0]['marks'];
  /** What it is shown for: another one scrolls the page. */
  of?: string | null;
}

function Page({ documentId, page, box, chosen = null, marks = new Map(), of = null }: PageProps) {
  const document = useQuery(documentQuery(documentId));
  const pages = document.data?.page_count ?? 0;
  // A request to scroll for each cell, and again once its box is known.
  const shown = useRef({ key: '', at: 0 });
  const key = `${of} ${page} ${box?.join()}`;
  if (shown.current.key !== key) shown.current = { key, at: shown.current.at + 1 };
  if (pages === 0) return <div className="flex-1" />;
  return (
    <div className="relative flex min-h-0 flex-1 flex-col *:min-h-0 *:flex-1">
      <PageViewer
        key={documentId}
        documentId={documentId}
        pages={pages}
        marks={marks}
        chosen={chosen}
        place={{ page, box, at: shown.current.at }}
        onChoose={() => undefined}
      />
    </div>
  );
}
