/** One question about a field: why it is asked, and the answers. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Ban, CircleDashed, CircleHelp, MousePointerClick, Pencil } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { Box, Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Input } from '../components/ui/Input';
import { Kbd } from '../components/ui/Kbd';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { StatusPill } from '../components/ui/StatusPill';
import { extractionQuery, problemsQuery, schemaOfQuery } from '../document/documentPageQueries';
import { statusLabel, statusText, canBeBlank } from '../document/fields/fieldStatus';
import { fieldRows, marksByPage, type FieldRow, type Leaf, type Mark } from '../document/fields/fieldTree';
import { displayValue, editedText, parseEdited } from '../document/fields/fieldValue';
import { pathLabel, schemaPath } from '../document/fields/labels';
import { proposalOf } from '../document/fields/proposals';
import { violationText } from '../document/fields/violationText';
import { useMarkReviewed } from '../document/MarkReviewed';
import { schemaFields } from '../document/schemaFields';
import { useWordPicker } from '../document/viewer/picking';
import { Crop } from '../review/Crop';
import type { useDecisions } from '../review/useDecisions';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { answersQuery, type CandidateAnswer, type InboxItem } from './inboxQueries';
import { answerReason } from './inboxText';
import { PageAndPanel } from './PageAndPanel';

const PICK = { id: 'inbox.pick', keys: 'p' } as const;
const ABSENT = { id: 'inbox.absent', keys: 'n' } as const;
const TYPE = { id: 'inbox.type', keys: 't' } as const;
const REVIEWED = { id: 'inbox.reviewed', keys: 'Mod+Enter' } as const;
const DIGITS = ([1, 2, 3, 4, 5, 6, 7, 8, 9] as const).map(
  (digit) => ({ id: `inbox.answer${digit}`, keys: String(digit) }) as const,
);
const NO_ANSWERS: readonly CandidateAnswer[] = [];

interface Props {
  item: InboxItem;
  /** The number of questions about this extraction, with this one. */
  left: number;
  next: InboxItem | undefined;
  decisions: ReturnType<typeof useDecisions>;
  onDecided: (saved: Promise<boolean>) => void;
  onReviewed: () => void;
}

export function QuestionPanel({ item, left, next, decisions, onDecided, onReviewed }: Props) {
  const id = item.extraction_id ?? '';
  const { path } = item;
  const queries = useQueryClient();
  const extraction = useQuery(extractionQuery(id));
  const stored = extraction.data;
  const schemaOf = useQuery(schemaOfQuery(id));
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const problems = useQuery({ ...problemsQuery(id, stored?.version ?? 0), enabled: stored?.valid === false });
  const rows = useMemo(
    () => (stored === undefined ? [] : fieldRows({ extraction: stored, schema, errors: problems.data?.errors ?? [] })),
    [stored, schema, problems.data],
  );
  const field = rows.find((one) => one.path === path);
  const found = useQuery({
    ...answersQuery(id, stored?.version ?? 0, path ?? ''),
    enabled: stored !== undefined && path !== null && path !== '',
  });
  const answers = found.data ?? NO_ANSWERS;
  const marks = useMemo(() => withAnswers(marksByPage(rows), answers), [rows, answers]);
  const first = answers.find((one) => one.page !== null);
  const evidence = field?.kind === 'leaf' ? field.evidence : undefined;
  const box = (first?.boxes[0] ?? evidence?.boxes?.[0]) as Box | undefined;
  const page = first?.page ?? evidence?.page ?? 1;

  // The next question opens at once.
  useEffect(() => {
    if (next?.kind !== 'value' || next.extraction_id === null || next.path === null) return;
    const { extraction_id: nextId, path: nextPath } = next;
    void queries
      .ensureQueryData(extractionQuery(nextId))
      .then((one) => queries.prefetchQuery(answersQuery(nextId, one.version, nextPath)))
      .catch(() => undefined);
  }, [queries, next]);

  if (extraction.isError) return <ErrorNotice error={extraction.error} />;
  return (
    <PageAndPanel
      documentId={item.document_id}
      marks={marks}
      chosen={first === undefined ? path : 'answer 1'}
      place={{ page, box, at: box === undefined ? 0 : 1 + rows.indexOf(field as FieldRow) }}>
      <div className="min-h-0 flex-1 overflow-y-auto p-4">
        {stored === undefined || (path !== null && found.isLoading) ? (
          <Loading />
        ) : field === undefined ? (
          <div className="rounded-lg border border-need-line p-3">
            {path === null && <p>{t('inbox.incompleteHint')}</p>}
            {(problems.data?.errors ?? []).map((one) => (
              <p key={one.code + one.message}>{violationText(one, schema)}</p>
            ))}
          </div>
        ) : (
          <Question
            extraction={stored}
            field={field}
            answers={answers}
            item={item}
            crop={box === undefined ? undefined : { page, box }}
            errors={field.errors.map((one) => violationText(one, schema))}
            decisions={decisions}
            onDecided={onDecided}
          />
        )}
        {stored !== undefined && <AllFields rows={rows} chosen={path} />}
      </div>
      {stored !== undefined && <Foot extraction={stored} left={left} onReviewed={onReviewed} />}
    </PageAndPanel>
  );
}

interface QuestionProps extends Pick<Props, 'item' | 'decisions' | 'onDecided'> {
  extraction: Extraction;
  field: FieldRow;
  answers: readonly CandidateAnswer[];
  crop: { page: number; box: Box } | undefined;
  errors: readonly string[];
}

function Question({ extraction, field, answers, item, crop, errors, decisions, onDecided }: QuestionProps) {
  const canWrite = useCanWrite();
  const leaf = field.kind === 'leaf' ? field : undefined;
  const [mode, setMode] = useState<'answers' | 'pick' | 'type'>('answers');
  const label = pathLabel(field.path);
  const proposal = field.reason === 'proposal' ? proposalOf(extraction.proposals, field.path) : undefined;
  const hasCurrent = leaf?.value !== undefined && leaf.value !== null && leaf.value !== '';
  // Someone can always keep what is there.
  const shown: readonly CandidateAnswer[] =
    proposal !== undefined || !hasCurrent || answers.some((one) => one.value === leaf.value)
      ? answers
      : [...answers, { value: leaf.value as never, code: 'current', data: {}, page: null, boxes: [] }];
  const { id } = extraction;

  const use = (answer: CandidateAnswer | undefined) => {
    if (answer === undefined || !canWrite) return;
    if (proposal !== undefined && (answer.code === 'proposed' || answer.code === 'current'))
      onDecided(decisions.decideProposals(id, field.path, [proposal], answer.code === 'proposed'));
    else if (hasCurrent && answer.value === leaf.value) onDecided(decisions.confirm(id, field.path));
    else onDecided(decisions.write(id, field.path, answer.value));
  };
  const save = (text: string) =>
    onDecided(decisions.write(id, field.path, parseEdited(text, leaf?.value, leaf?.field?.type)));
  const isBlankable = leaf !== undefined && canBeBlank(leaf, leaf.value);
  const absent = () => onDecided(decisions.write(id, field.path, null));

  useShortcut(PICK, () => setMode('pick'), leaf !== undefined && canWrite);
  useShortcut(ABSENT, absent, isBlankable && canWrite);
  useShortcut(TYPE, () => setMode('type'), leaf !== undefined && canWrite);
  for (const [index, shortcut] of DIGITS.entries())
    useShortcut(shortcut, () => use(shown[index]), index < shown.length);

  const firstAnswer = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (mode === 'answers') firstAnswer.current?.focus();
  }, [mode]);
  return (
    <section
      className="rounded-lg border border-need-line p-3 shadow-sm"
      aria-label={t('review.label', { field: label })}>
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 truncate text-sm font-semibold">{label}</h2>
        <StatusPill tone="need" icon={field.reason === 'missing' ? CircleDashed : CircleHelp}>
          {field.status === undefined ? '' : statusLabel({ status: field.status, reason: field.reason })}
        </StatusPill>
      </div>
      <p className="mt-1">
        {leaf === undefined || field.status === undefined
          ? null
          : field.reason === 'missing'
            ? answers.length === 0
              ? t('inbox.noAnswer')
              : t('inbox.missing', { count: answers.length })
            : statusText({ status: field.status, reason: field.reason }, leaf.evidence, leaf.confidence)}
      </p>
      {errors.map((error) => (
        <p key={error} className="text-need">
          {error}
        </p>
      ))}
      {crop !== undefined && (
        <div className="mt-2 max-xl:hidden">
          <Crop documentId={item.document_id ?? ''} page={crop.page} box={crop.box} />
        </div>
      )}
      <div className="mt-2 flex flex-col gap-2">
        {shown.map((answer, index) => (
          <button
            key={`${answer.code} ${JSON.stringify(answer.value)}`}
            ref={index === 0 ? firstAnswer : undefined}
            type="button"
            disabled={!canWrite}
            aria-keyshortcuts={String(index + 1)}
            onClick={() => use(answer)}
            className={cn(
              'flex min-h-8 items-center gap-2 rounded-md border px-2.5 py-1 text-left max-md:min-h-15',
              index === 0
                ? 'border-transparent bg-primary text-primary-foreground hover:bg-primary-hover'
                : 'border-input bg-background hover:bg-hover',
            )}>
            <Kbd onPrimary={index === 0}>{String(index + 1)}</Kbd>
            <span className="font-medium wrap-anywhere">{answerText(answer, leaf)}</span>
            <span className={cn('min-w-0 flex-1 text-xs', index > 0 && 'text-muted-foreground')}>
              {answerReason(answer)}
            </span>
            {index === 0 && <Kbd onPrimary>↵</Kbd>}
          </button>
        ))}
      </div>
      {leaf === undefined && (
        <Button
          kind="main"
          className="mt-2"
          autoFocus
          disabled={!canWrite}
          onClick={() => onDecided(decisions.confirm(id, field.path))}>
          {t('fields.keep')}
        </Button>
      )}
      {mode === 'type' && leaf !== undefined && (
        <Editor label={label} start={editedText(leaf.value)} onSave={save} onClose={() => setMode('answers')} />
      )}
      {mode === 'pick' && leaf !== undefined && (
        <>
          <Picker onPick={save} />
          <p className="mt-2 text-link" role="status">
            {t('inbox.pickHint')}
          </p>
        </>
      )}
      {leaf !== undefined && (
        <div className="mt-2 flex flex-wrap gap-1 max-md:[&>button]:min-h-11">
          <Button
            kind="quiet"
            icon={MousePointerClick}
            keys="P"
            disabled={!canWrite}
            aria-pressed={mode === 'pick'}
            onClick={() => setMode(mode === 'pick' ? 'answers' : 'pick')}>
            {t('inbox.pick')}
          </Button>
          {isBlankable && (
            <Button kind="quiet" icon={Ban} keys="N" disabled={!canWrite} onClick={absent}>
              {t('fields.notInDocument')}
            </Button>
          )}
          <Button kind="quiet" icon={Pencil} keys="T" disabled={!canWrite} onClick={() => setMode('type')}>
            {t('inbox.type')}
          </Button>
        </div>
      )}
    </section>
  );
}

function answerText(answer: CandidateAnswer, leaf: Leaf | undefined): string {
  if (answer.data.removed !== undefined) return t('approvals.removed');
  return displayValue(answer.value, leaf?.field, answer.data.quote ?? leaf?.evidence?.quote) || t('fields.nothing');
}

function Editor({
  label,
  start,
  onSave,
  onClose,
}: {
  label: string;
  start: string;
  onSave: (text: string) => void;
  onClose: () => void;
}) {
  const [text, setText] = useState(start);
  useWordPicker((words, isMore) => setText(isMore && text !== '' ? `${text} ${words}` : words));
  return (
    <form
      className="mt-2 flex gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        onSave(text);
      }}>
      <Input
        autoFocus
        aria-label={t('fields.valueOf', { field: label })}
        value={text}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && onClose()}
      />
      <Button kind="main" size="md" type="submit" disabled={text === ''}>
        {t('common.save')}
      </Button>
    </form>
  );
}

/** A click on a word of the page answers the question. */
function Picker({ onPick }: { onPick: (text: string) => void }) {
  useWordPicker((words) => onPick(words));
  return null;
}

function AllFields({ rows, chosen }: { rows: readonly FieldRow[]; chosen: string | null }) {
  const leaves = rows.filter((one): one is Leaf => one.kind === 'leaf');
  const filled = leaves.filter((one) => one.value !== undefined && one.value !== null && one.value !== '').length;
  return (
    <section className="mt-4" aria-label={t('inbox.allFields')}>
      <h2 className="flex px-2 text-xs font-normal text-muted-foreground">
        <span className="flex-1">{t('inbox.allFields')}</span>
        {t('inbox.filled', { count: filled, all: leaves.length })}
      </h2>
      <dl className="mt-1">
        {leaves.slice(0, 200).map((one) => (
          <div
            key={one.path}
            className={cn(
              'grid min-h-8 grid-cols-[minmax(0,2fr)_minmax(0,4fr)_auto] items-center gap-2 rounded-md px-2',
              one.path === chosen && 'bg-accent',
            )}>
            <dt className="truncate text-muted-foreground">
              {visibleText(schemaPath(one.path) && pathLabel(one.path))}
            </dt>
            <dd className="truncate">{displayValue(one.value, one.field, one.evidence?.quote)}</dd>
            <dd className={cn('text-xs', one.status === 'confirmed' ? 'text-ok' : 'text-muted-foreground')}>
              {statusLabel(one)}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Foot({ extraction, left, onReviewed }: { extraction: Extraction; left: number; onReviewed: () => void }) {
  const canWrite = useCanWrite();
  const finish = useMarkReviewed(onReviewed);
  const isOff = left > 0 || finish.isPending || !canWrite;
  useShortcut(REVIEWED, () => finish.mutate(extraction), !isOff);
  return (
    <div className="flex min-h-14 shrink-0 items-center gap-2 border-t border-border px-4">
      <p className="flex-1 text-xs text-muted-foreground">{t('review.left', { count: left })}</p>
      <Button keys="⌘↵" kind={left === 0 ? 'main' : 'plain'} disabled={isOff} onClick={() => finish.mutate(extraction)}>
        {t('document.markReviewed')}
      </Button>
    </div>
  );
}

/** The boxes of the fields, and of the answers with their numbers. */
function withAnswers(marks: ReadonlyMap<number, readonly Mark[]>, answers: readonly CandidateAnswer[]) {
  const all = new Map([...marks].map(([page, list]) => [page, [...list]]));
  for (const [index, { page, boxes }] of answers.entries()) {
    if (page === null) continue;
    const list = all.get(page) ?? [];
    for (const box of boxes)
      list.push({ path: `answer ${index + 1}`, box: box as Box, status: 'unclear', number: index + 1 });
    all.set(page, list);
  }
  return all;
}
