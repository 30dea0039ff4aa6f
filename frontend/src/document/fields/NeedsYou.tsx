/** The questions of a document: one is open, with its answers; the others are a line each. Answered ones stay as a line, so
 * that nothing jumps. */

import { Check, CircleDashed, CircleHelp, MousePointerClick } from 'lucide-react';
import { Button } from '../../components/ui/Button';
import { cn } from '../../components/ui/cn';
import { Kbd } from '../../components/ui/Kbd';
import { useCanWrite } from '../../session/role';
import { t } from '../../shared/i18n';
import { Question, type QuestionProps } from '../../question/Question';
import { FieldText } from '../../fields/FieldState';
import { needsPerson, statusLabel, statusText, subjectOf } from '../../fields/fieldStatus';
import type { FieldRow } from '../../fields/fieldTree';
import { pathLabel } from '../../fields/labels';
import { proposalOf } from '../../fields/proposals';

const MOST = 30;
const KEYS = ['J', 'K'];

/** Return the fields that a person has to look at; of a list or object that an agent proposes, one. */
export function questionsOf(rows: readonly FieldRow[], proposals: Parameters<typeof proposalOf>[0]): FieldRow[] {
  const asked = new Set<string>();
  return rows.filter((row) => {
    if (!needsPerson(row)) return false;
    const proposal = row.reason === 'proposal' ? proposalOf(proposals, row.path) : undefined;
    if (proposal === undefined) return true;
    return !asked.has(proposal.path) && asked.add(proposal.path);
  });
}

interface Props extends Omit<QuestionProps, 'field'> {
  questions: readonly FieldRow[];
  answered: readonly FieldRow[];
  open: string | null;
  onOpen: (path: string, pick?: boolean) => void;
}

export function NeedsYou({ questions, answered, open, onOpen, ...question }: Props) {
  const canWrite = useCanWrite();
  const { extraction, schema, decisions, onDecided, startMode } = question;
  const shown = questions.slice(0, MOST);
  if (questions.length + answered.length === 0) return null;
  return (
    <section className="grid grid-cols-[minmax(0,1fr)] gap-2 px-4 pt-2 pb-3" aria-label={t('document.needsYou')}>
      <h2 className="flex items-center gap-1 text-xs font-medium text-need">
        <span className="flex-1">{t('document.needsYouCount', { count: questions.length })}</span>
        {questions.length > 1 && KEYS.map((key) => <Kbd key={key}>{key}</Kbd>)}
      </h2>
      {answered.map((field) => (
        <Line key={field.path} field={field} label={pathLabel(field.path, schema)} isAnswered />
      ))}
      {shown.map((field) =>
        field.path === open ? (
          <Question key={`${field.path} ${startMode}`} {...question} field={field} />
        ) : (
          <Line key={field.path} field={field} label={pathLabel(field.path, schema)} onOpen={() => onOpen(field.path)}>
            {canWrite &&
              field.kind === 'leaf' &&
              (subjectOf(field) === 'value' || field.reason === 'missing') &&
              (field.reason === 'missing' ? (
                <Button icon={MousePointerClick} onClick={() => onOpen(field.path, true)}>
                  {t('document.pick')}
                </Button>
              ) : (
                field.reason !== 'proposal' && (
                  <Button
                    icon={Check}
                    aria-label={t('document.confirmField', { field: pathLabel(field.path, schema) })}
                    onClick={() =>
                      onDecided(field.path, decisions.confirm(extraction.id, field.path, { was: field.value ?? null }))
                    }>
                    {t('common.confirm')}
                  </Button>
                )
              ))}
          </Line>
        ),
      )}
      {questions.length > shown.length && (
        <p className="text-xs text-muted-foreground">
          {t('document.moreQuestions', { count: questions.length - shown.length })}
        </p>
      )}
    </section>
  );
}

interface LineProps {
  field: FieldRow;
  label: string;
  isAnswered?: boolean;
  onOpen?: () => void;
  children?: React.ReactNode;
}

function Line({ field, label, isAnswered = false, onOpen, children }: LineProps) {
  const Sign = isAnswered ? Check : field.reason === 'missing' ? CircleDashed : CircleHelp;
  const status =
    field.status === undefined ? null : { status: field.status, reason: field.reason, of: subjectOf(field) };
  const why = status === null ? '' : statusText(status, field.kind === 'leaf' ? field.evidence : undefined);
  return (
    <div className="flex min-h-10 items-center gap-2 rounded-lg border border-border bg-background px-3 py-1">
      <button
        type="button"
        disabled={onOpen === undefined}
        onClick={onOpen}
        className="flex min-w-0 flex-1 items-center gap-2 self-stretch text-left">
        <Sign size={14} className={cn('shrink-0', isAnswered ? 'text-ok' : 'text-need-dot')} aria-hidden="true" />
        <span className="max-w-2/3 shrink-0 truncate font-medium">{label}</span>
        {isAnswered ? (
          field.kind === 'leaf' && <FieldText row={field} />
        ) : (
          <span className="truncate text-xs text-muted-foreground">{why}</span>
        )}
        {isAnswered && status !== null && <span className="sr-only">{statusLabel(status)}</span>}
      </button>
      {children}
    </div>
  );
}
