/** One question about a field: why it is asked, and the answers as buttons. In the inbox, on documents and beside tables. */

import { Ban, CircleDashed, CircleHelp, MousePointerClick, Pencil, Trash2 } from 'lucide-react';
import { type ReactNode, type Ref, useEffect, useRef, useState } from 'react';
import type { Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { cn } from '../components/ui/cn';
import { Input } from '../components/ui/Input';
import { Kbd } from '../components/ui/Kbd';
import { Skeleton } from '../components/ui/Skeleton';
import { StatusPill } from '../components/ui/StatusPill';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { canBeBlank, type Status, statusLabel, statusText, subjectOf } from '../fields/fieldStatus';
import type { FieldRow } from '../fields/fieldTree';
import { displayValue, editedText, parseEdited } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { pathSteps, valueAt } from '../fields/paths';
import { ProposedValue } from '../fields/ProposedValue';
import { proposalOf } from '../fields/proposals';
import type { Decisions } from '../fields/useDecisions';
import { violationText } from '../fields/violationText';
import type { SchemaField } from '../fields/schemaFields';
import { useWordPicker } from '../viewer/picking';
import { answerReason, answerText, type CandidateAnswer } from './answers';

const PICK = { id: 'question.pick', keys: 'p' } as const;
const ABSENT = { id: 'question.absent', keys: 'n' } as const;
const REMOVE = { id: 'question.removeRow', keys: 'x' } as const;
const TYPE = { id: 'question.type', keys: 't' } as const;
const DIGITS = ([1, 2, 3, 4, 5, 6, 7, 8, 9] as const).map(
  (digit) => ({ id: `question.answer${digit}`, keys: String(digit) }) as const,
);

export interface QuestionProps {
  extraction: Extraction;
  field: FieldRow;
  schema: readonly SchemaField[];
  answers: readonly CandidateAnswer[];
  decisions: Decisions;
  /** The path that was decided: that of the field, or of the list or object that an agent proposes. */
  onDecided: (path: string, saved: Promise<boolean>, value?: unknown) => void;
  startMode?: Mode;
  /** Take the focus: the first answer is one key away. */
  takesFocus?: boolean;
  /** At the right of the head. */
  hint?: ReactNode;
  /** A picture of the place. */
  crop?: ReactNode;
  /** The answers are not known yet. */
  isLoading?: boolean;
}

const toolClass = 'px-1! font-normal text-muted-foreground aria-pressed:text-link';

export type Mode = 'answers' | 'pick' | 'type';

export function Question(props: QuestionProps) {
  const { extraction, field, schema, answers, decisions, onDecided, startMode = 'answers', hint, crop } = props;
  const { takesFocus = true, isLoading = false } = props;
  const canWrite = useCanWrite();
  const leaf = field.kind === 'leaf' ? field : undefined;
  const [mode, setMode] = useState<Mode>(startMode);
  const { id } = extraction;
  const { path } = field;
  const label = pathLabel(path, schema);
  const proposal = field.reason === 'proposal' ? proposalOf(extraction.proposals, path) : undefined;
  const isWhole = proposal !== undefined && proposal.path !== path;
  const hasEditor = leaf !== undefined && !isWhole;
  const was =
    leaf === undefined ? (answers.find(({ code }) => code === 'current')?.value ?? null) : (leaf.value ?? null);

  const write = (value: unknown, seen = was) => onDecided(path, decisions.write(id, path, value, { was: seen }), value);
  const use = (answer: CandidateAnswer | undefined) => {
    if (answer === undefined || !canWrite) return;
    if (proposal !== undefined && (answer.code === 'proposed' || answer.code === 'current'))
      onDecided(
        proposal.path,
        decisions.decideProposals(id, proposal.path, [proposal], answer.code === 'proposed'),
        answer.code === 'proposed' && !isWhole ? answer.value : undefined,
      );
    else if (leaf === undefined && answer.code === 'current') onDecided(path, decisions.confirm(id, path));
    else if (was !== null && answer.value === was) onDecided(path, decisions.confirm(id, path, { was }));
    else write(answer.value);
  };
  const isBlankable = leaf !== undefined && canBeBlank(field as never, leaf.value);

  const isItem = leaf === undefined && proposal === undefined && path.endsWith(']') && !path.endsWith('"]');
  const remove = () => {
    const row = valueAt(extraction.extracted_fields, pathSteps(path) ?? []);
    onDecided(path, decisions.remove(id, path, { was: row ?? null }));
  };

  useShortcut(REMOVE, remove, isItem && canWrite);
  useShortcut(PICK, () => setMode('pick'), hasEditor && canWrite);
  useShortcut(ABSENT, () => write(null), isBlankable && canWrite);
  useShortcut(TYPE, () => setMode('type'), hasEditor && canWrite);
  for (const [index, shortcut] of DIGITS.entries())
    useShortcut(shortcut, () => use(answers[index]), index < answers.length);

  // Enter takes the first answer, but no guess.
  const hasFirst = answers[0] !== undefined && answers[0].code !== 'near';
  const isFirst = (index: number) => index === 0 && hasFirst;
  const card = useRef<HTMLElement>(null);
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (mode !== 'answers' || !takesFocus || isLoading) return;
    if (first.current !== null) first.current.focus({ preventScroll: true });
    else if (card.current?.contains(document.activeElement) === false) card.current.focus({ preventScroll: true });
  }, [mode, takesFocus, isLoading, hasFirst]);
  return (
    <Card
      ref={card}
      path={path}
      label={label}
      status={field.status === undefined ? undefined : { status: field.status, reason: field.reason }}
      hint={hint}>
      <Why field={field} schema={schema} count={isLoading ? undefined : answers.length} />
      {proposal !== undefined && isWhole && <ProposedValue proposal={proposal} path={path} schema={schema} />}
      {crop}
      <div className="mt-2 flex flex-col gap-1.5">
        {answers.map((answer, index) => (
          <button
            key={`${answer.code} ${JSON.stringify(answer.value)}`}
            ref={isFirst(index) ? first : undefined}
            data-first={isFirst(index) || undefined}
            type="button"
            disabled={!canWrite}
            aria-keyshortcuts={String(index + 1)}
            onClick={() => use(answer)}
            className={cn(
              'flex min-h-8 items-center gap-2 rounded-md border px-2.5 py-1 text-left max-sm:min-h-15',
              isFirst(index)
                ? 'border-transparent bg-primary text-primary-foreground hover:bg-primary-hover disabled:bg-muted disabled:text-muted-foreground'
                : 'border-input bg-background hover:bg-hover disabled:text-faint',
            )}>
            {/* That of its box on the page. */}
            <span
              aria-hidden="true"
              className={cn(
                'flex h-4 min-w-4 shrink-0 items-center justify-center rounded-xs text-[0.625rem] leading-none font-semibold',
                isFirst(index) ? 'bg-white/20' : 'bg-need-bg text-need',
              )}>
              {index + 1}
            </span>
            <span className="font-medium wrap-anywhere">{answerText(answer, field)}</span>
            <span className={cn('min-w-0 flex-1 text-xs', !isFirst(index) && 'text-muted-foreground')}>
              {answerReason(answer, answerText(answer, field))}
            </span>
            <Kbd onPrimary={isFirst(index)}>{isFirst(index) ? '↵' : String(index + 1)}</Kbd>
          </button>
        ))}
        {isLoading && <AnswersToCome />}
        {leaf === undefined && proposal === undefined && answers.length === 0 && !isLoading && (
          <Button
            kind="main"
            size="md"
            autoFocus={takesFocus}
            disabled={!canWrite}
            onClick={() => onDecided(path, decisions.confirm(id, path))}>
            {t('fields.keep')}
          </Button>
        )}
        {isItem && (
          <Button size="md" icon={Trash2} keys="X" disabled={!canWrite} onClick={remove}>
            {t('fields.removeRow')}
          </Button>
        )}
      </div>
      {mode === 'type' && hasEditor && (
        <Editor
          label={label}
          value={was}
          onSave={(text, seen) => write(parseEdited(text, leaf.value, leaf.field?.type), seen)}
          onClose={() => setMode('answers')}
        />
      )}
      {mode === 'pick' && hasEditor && (
        <>
          <Picker onPick={(text) => write(parseEdited(text, leaf.value, leaf.field?.type))} />
          <p className="mt-2 text-link" role="status">
            {t('inbox.pickHint')}
          </p>
        </>
      )}
      {hasEditor && (
        <div className="-mx-1 mt-2 flex flex-wrap gap-x-2 max-sm:[&>button]:min-h-11">
          <Button
            kind="quiet"
            className={toolClass}
            icon={MousePointerClick}
            keys="P"
            disabled={!canWrite}
            aria-pressed={mode === 'pick'}
            onClick={() => setMode(mode === 'pick' ? 'answers' : 'pick')}>
            {t('inbox.pick')}
          </Button>
          {isBlankable && (
            <Button
              kind="quiet"
              className={toolClass}
              icon={Ban}
              keys="N"
              disabled={!canWrite}
              onClick={() => write(null)}>
              {t('fields.notInDocument')}
            </Button>
          )}
          <Button
            kind="quiet"
            className={toolClass}
            icon={Pencil}
            keys="T"
            disabled={!canWrite}
            onClick={() => setMode('type')}>
            {t('inbox.type')}
          </Button>
        </div>
      )}
    </Card>
  );
}

interface CardProps {
  path: string;
  label: string;
  status: Status | undefined;
  hint?: ReactNode;
  ref?: Ref<HTMLElement>;
  children: ReactNode;
}

function Card({ path, label, status, hint, ref, children }: CardProps) {
  return (
    <section
      ref={ref}
      tabIndex={-1}
      className="rounded-lg border border-need-line bg-background p-3 shadow-sm outline-none"
      aria-label={t('inbox.question', { field: label })}>
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 truncate text-sm font-semibold" title={visibleText(path)}>
          {label}
        </h2>
        {status !== undefined && (
          <StatusPill tone="need" icon={status.reason === 'missing' ? CircleDashed : CircleHelp}>
            {statusLabel(status)}
          </StatusPill>
        )}
        <span className="flex-1" />
        <span className="text-xs text-muted-foreground">{hint}</span>
      </div>
      {children}
    </section>
  );
}

/** The question while its document loads: what the inbox knows of it. */
export function QuestionToCome({ status, ...card }: Omit<CardProps, 'children'>) {
  return (
    <Card status={status} {...card}>
      {status === undefined || status.reason === 'missing' ? (
        <Skeleton className="my-[0.45rem] w-3/5" />
      ) : (
        <p className="mt-1">{`${statusText(status)}.`}</p>
      )}
      <div className="mt-2 flex flex-col gap-1.5">
        <AnswersToCome />
      </div>
    </Card>
  );
}

function AnswersToCome() {
  return (
    <div className="grid gap-1.5" role="status" aria-label={t('common.loading')}>
      <Skeleton className="h-8 rounded-md max-sm:h-15" />
      <Skeleton className="h-8 rounded-md max-sm:h-15" />
    </div>
  );
}

interface WhyProps {
  field: FieldRow;
  schema: readonly SchemaField[];
  /** The number of answers, once it is known. */
  count: number | undefined;
}

/** Why it is asked; what the schema or a rule says against the value; what the page prints. */
function Why({ field, schema, count }: WhyProps) {
  if (field.status === undefined) return null;
  if (field.reason === 'missing' && count === undefined) return <Skeleton className="my-[0.45rem] w-3/5" />;
  const leaf = field.kind === 'leaf' ? field : undefined;
  const errors = field.reason === 'missing' ? [] : field.errors.map((one) => violationText(one, schema));
  const why =
    field.reason === 'missing'
      ? count === 0
        ? t('inbox.noAnswer')
        : t('inbox.missing', { count })
      : errors.length > 0
        ? ''
        : statusText(
            { status: field.status, reason: field.reason, of: subjectOf(field) },
            leaf?.evidence,
            leaf?.confidence,
          );
  const quote = leaf?.evidence?.quote;
  return (
    <p className="mt-1 text-muted-foreground wrap-anywhere">
      {why !== '' && <span className="text-foreground">{/[.?!]$/.test(why) ? why : `${why}.`}</span>}{' '}
      {errors.map((error) => (
        <span key={error} className="block text-foreground">
          {error}
        </span>
      ))}
      {quote ? t('inbox.prints', { page: leaf?.evidence?.page, quote: visibleText(quote) }) : null}
    </p>
  );
}

interface EditorProps {
  label: string;
  value: unknown;
  /** `seen`: the value when the person began to type. */
  onSave: (text: string, seen: unknown) => void;
  onClose: () => void;
}

/** A click on a word of the page, or a box drawn there, fills in the text. */
function Editor({ label, value, onSave, onClose }: EditorProps) {
  const [seen] = useState(value);
  const [text, setText] = useState(() => editedText(value));
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  useWordPicker((words, isMore) => {
    setText((before) => (isMore && before !== '' ? `${before} ${words}` : words));
    input.current?.focus();
  });
  return (
    <Form
      className="mt-2 flex flex-wrap gap-2"
      data-typing
      onSubmit={() => {
        if (text !== '') onSave(text, seen);
      }}>
      <Input
        ref={input}
        className="w-auto! min-w-0 flex-1"
        autoFocus
        aria-label={t('fields.valueOf', { field: label })}
        value={text}
        spellCheck={false}
        onValueChange={setText}
        onKeyDown={(event) => event.key === 'Escape' && onClose()}
      />
      <Button kind="main" size="md" type="submit" disabled={text === ''}>
        {t('common.save')}
      </Button>
      {JSON.stringify(value) !== JSON.stringify(seen) && (
        <p className="w-full text-need" role="status">
          {t('inbox.someoneChanged', { value: displayValue(value) || t('fields.nothing') })}
        </p>
      )}
    </Form>
  );
}

/** A click on a word of the page answers the question. */
function Picker({ onPick }: { onPick: (text: string) => void }) {
  useWordPicker((words) => onPick(words));
  return null;
}
