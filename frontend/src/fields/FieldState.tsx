/** What is at the right of a value: where it is printed, why a person has to look at it, or who confirmed it and when. */

import {
  Check,
  Circle,
  CircleDashed,
  CircleHelp,
  Clock,
  LoaderCircle,
  type LucideIcon,
  Minus,
  ShieldCheck,
} from 'lucide-react';
import { cn } from '../components/ui/cn';
import { usePersonName } from '../session/people';
import { formatTime } from '../shared/format';
import { t } from '../shared/i18n';
import { type FieldStatus, needsPerson, statusLabel, statusText } from './fieldStatus';
import type { FieldRow, Leaf } from './fieldTree';
import { displayValue } from './fieldValue';

const SIGNS: Record<FieldStatus, { icon: LucideIcon; tone: string }> = {
  needs_review: { icon: CircleHelp, tone: 'text-need' },
  unclear: { icon: CircleHelp, tone: 'text-need' },
  waiting: { icon: ShieldCheck, tone: 'text-link' },
  saving: { icon: Clock, tone: 'text-muted-foreground' },
  preview: { icon: LoaderCircle, tone: 'text-muted-foreground' },
  stale: { icon: Clock, tone: 'text-muted-foreground' },
  not_written: { icon: Minus, tone: 'text-faint' },
  blank: { icon: Minus, tone: 'text-faint' },
  accepted: { icon: Check, tone: 'text-muted-foreground' },
  confirmed: { icon: Check, tone: 'text-ok' },
  found: { icon: Circle, tone: 'text-faint' },
};

export function FieldState({ row, className }: { row: FieldRow; className?: string }) {
  const personName = usePersonName();
  if (row.status === undefined) return null;
  const { icon, tone } = SIGNS[row.status];
  const Sign = row.reason === 'missing' ? CircleDashed : icon;
  const lock = row.kind === 'leaf' ? row.lock : undefined;
  const label = statusLabel({ status: row.status, reason: row.reason });
  const text =
    row.status === 'confirmed' && lock !== undefined
      ? t('fields.byAt', { person: personName(lock.by), time: formatTime(lock.at) })
      : shortText(row);
  return (
    <span
      className={cn('flex min-w-0 items-center justify-end gap-1.5 text-xs text-muted-foreground', className)}
      title={statusText({ status: row.status, reason: row.reason })}>
      <span className="truncate" aria-hidden={text === label || undefined}>
        {text}
      </span>
      <Sign size={13} className={cn('shrink-0', tone)} aria-hidden="true" />
      <span className="sr-only">{label}</span>
    </span>
  );
}

function shortText(row: FieldRow): string {
  switch (row.status) {
    case 'found':
      return row.kind === 'leaf' && row.evidence?.page != null
        ? t('common.pageShort', { page: row.evidence.page })
        : '';
    case 'needs_review':
    case 'unclear':
      return row.reason === null ? '' : t(`fields.short.${row.reason as 'missing'}`);
    case 'not_written':
      return '';
    default:
      return statusLabel({ status: row.status!, reason: row.reason });
  }
}

/** The value as it is shown in a row, in the colour of its status. */
export function FieldText({ row, className }: { row: Leaf; className?: string }) {
  const text = displayValue(row.value, row.field, row.evidence?.quote);
  const isOpen = needsPerson(row);
  const isEmpty = text === '';
  return (
    <span
      className={cn(
        'block min-w-0 truncate',
        isOpen && 'font-medium text-need',
        isEmpty && !isOpen && 'text-faint',
        (row.status === 'preview' || row.status === 'waiting' || row.status === 'saving') &&
          'text-muted-foreground italic',
        className,
      )}
      title={text}>
      {!isEmpty ? text : isOpen && row.reason === 'missing' ? t('fields.reasons.missing') : t('fields.none')}
    </span>
  );
}
