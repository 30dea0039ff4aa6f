/** The list of the inbox, with its filters and counts. */

import { useQuery } from '@tanstack/react-query';
import {
  CircleDashed,
  CircleHelp,
  type LucideIcon,
  ShieldCheck,
  SlidersHorizontal,
  Sparkles,
  TriangleAlert,
} from 'lucide-react';
import { useEffect, useRef } from 'react';
import { Avatar } from '../session/Avatar';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Kbd } from '../components/ui/Kbd';
import { Popover } from '../components/ui/Popover';
import { Skeleton } from '../components/ui/Skeleton';
import { Select, type SelectOption } from '../components/ui/Select';
import { knownFieldsQuery, schemasQuery } from '../fields/extractionQueries';
import { pathLabel } from '../fields/labels';
import { useMembers, usePersonName } from '../session/people';
import { formatNumber, formatShortAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { type InboxCounts, type InboxItem, itemKey, total } from './inboxQueries';
import { itemDetails, itemTitle } from './inboxText';
import { type InboxKind, type InboxView, KINDS } from './inboxView';

const ALL = 'all';
const AGES = [1, 7, 30] as const;
const KEY_HINTS = [
  { keys: ['J', 'K'], action: 'move' },
  { keys: ['↵'], action: 'answer' },
  { keys: ['A'], action: 'approve' },
] as const;

interface Props {
  /** undefined: loading. */
  items: readonly InboxItem[] | undefined;
  counts: InboxCounts | undefined;
  view: InboxView;
  chosen: string | null;
  hasMore: boolean;
  onChoose: (key: string) => void;
  onView: (view: InboxView) => void;
  onMore: () => void;
  className?: string;
}

export function InboxList({ items, counts, view, chosen, hasMore, onChoose, onView, onMore, className }: Props) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  return (
    <div className={cn('min-h-0 flex-col border-r border-border bg-background', className)}>
      <div className="flex h-12 shrink-0 items-center gap-1 border-b border-border pr-2 pl-4">
        <h1 className="flex-1 text-lg font-semibold whitespace-nowrap">
          {t('areas.inbox')} <span className="pl-1 font-normal text-muted-foreground">{countText(total(counts))}</span>
        </h1>
        <TableFilter view={view} onView={onView} />
        <MoreFilters view={view} onView={onView} />
      </div>
      <div className="flex shrink-0 items-center gap-px overflow-x-auto border-b border-border px-2 py-1 [scrollbar-width:none]">
        {[undefined, ...KINDS.filter((one) => one === view.kind || (counts?.[one]?.count ?? 1) > 0)].map((kind) => (
          <button
            key={kind ?? ALL}
            type="button"
            aria-pressed={view.kind === kind}
            onClick={() => onView(withOnly(view, 'kind', kind))}
            className="min-h-6 shrink-0 rounded-full px-[5px] text-xs whitespace-nowrap text-muted-foreground hover:bg-hover aria-pressed:bg-accent aria-pressed:font-medium aria-pressed:text-link max-sm:min-h-11 max-sm:px-3">
            {t(`inbox.kinds.${kind ?? ALL}`)} {countText(kind === undefined ? total(counts) : counts?.[kind])}
          </button>
        ))}
      </div>
      <ul
        ref={list}
        className="min-h-0 flex-1 overflow-y-auto"
        aria-label={t('areas.inbox')}
        aria-busy={items === undefined}>
        {items === undefined &&
          Array.from({ length: 10 }, (_, index) => (
            <li key={index} className="flex h-[53px] flex-col justify-center gap-2 border-b border-line px-4">
              <Skeleton className="w-3/5" />
              <Skeleton className="w-2/5" />
            </li>
          ))}
        {items?.map((item) => {
          const key = itemKey(item);
          const person = item.assignee_id ?? item.created_by;
          return (
            <li key={key}>
              <button
                type="button"
                aria-current={key === chosen ? 'true' : undefined}
                onClick={() => onChoose(key)}
                className="flex min-h-[53px] w-full items-start gap-3 border-b border-l-2 border-line border-l-transparent py-2 pr-3 pl-3.5 text-left -outline-offset-2 hover:bg-hover lg:aria-[current]:border-l-primary lg:aria-[current]:bg-accent">
                <ItemIcon item={item} />
                <span className="min-w-0 flex-1">
                  <span className="flex items-baseline gap-2">
                    <span className="min-w-0 flex-1 truncate font-medium">{itemTitle(item)}</span>
                    <span className="shrink-0 text-xs text-muted-foreground">{formatShortAge(item.created_at)}</span>
                  </span>
                  <span className="flex items-center gap-2 text-xs text-muted-foreground">
                    <span className="min-w-0 flex-1 truncate">{itemDetails(item)}</span>
                    {person !== null && <Avatar id={person} isAlone />}
                  </span>
                </span>
              </button>
            </li>
          );
        })}
        {hasMore && (
          <li className="p-3 text-center">
            <Button onClick={onMore}>{t('inbox.more')}</Button>
          </li>
        )}
      </ul>
      <p className="flex h-9 shrink-0 items-center justify-center gap-3 border-t border-border px-3 text-xs text-muted-foreground max-lg:hidden pointer-coarse:hidden">
        {KEY_HINTS.map(({ keys, action }) => (
          <span key={action} className="flex items-center gap-1">
            {keys.map((key) => (
              <Kbd key={key}>{key}</Kbd>
            ))}{' '}
            {t(`inbox.keys.${action}`)}
          </span>
        ))}
      </p>
    </div>
  );
}

const ICONS: Record<InboxKind, { icon: LucideIcon; colour: string }> = {
  value: { icon: CircleHelp, colour: 'text-need-dot' },
  approval: { icon: ShieldCheck, colour: 'text-link' },
  suggestion: { icon: Sparkles, colour: 'text-link' },
  failed: { icon: TriangleAlert, colour: 'text-bad' },
};

function ItemIcon({ item }: { item: InboxItem }) {
  const { icon, colour } = ICONS[item.kind];
  const Sign = item.reason === 'missing' ? CircleDashed : icon;
  return <Sign size={15} aria-hidden="true" className={cn('mt-0.5 shrink-0', colour)} />;
}

type FilterProps = Pick<Props, 'view' | 'onView'>;

function TableFilter({ view, onView }: FilterProps) {
  const tables = useQuery(schemasQuery);
  return (
    <Select
      kind="quiet"
      className="max-w-36"
      label={t('inbox.table')}
      value={view.schema ?? ALL}
      options={[
        { value: ALL, label: t('inbox.allTables') },
        ...(tables.data ?? []).map((one) => ({ value: one.id, label: visibleText(one.name) })),
      ]}
      onChange={(schema) => onView(withOnly(view, 'schema', schema === ALL ? undefined : schema))}
    />
  );
}

/** Person, age, and the one field to review in all documents. */
function MoreFilters({ view, onView }: FilterProps) {
  const personName = usePersonName(true);
  const members = useMembers();
  const known = useQuery(knownFieldsQuery(null));
  const fields = [...new Set([...(known.data ?? []).map((one) => one.path), ...(view.field ? [view.field] : [])])];
  const people = members.map((one) => ({ value: one.user_id, label: personName(one.user_id) }));
  const set = [view.order, view.assignee, view.person, view.days, view.field].filter((one) => one !== undefined).length;
  return (
    <Popover
      align="end"
      className="grid w-64 gap-3"
      title={t('inbox.filters')}
      trigger={<Button kind="quiet" icon={SlidersHorizontal} aria-pressed={set > 0} label={t('inbox.filters')} />}>
      <FilterChoice
        label={t('inbox.order')}
        value={view.order}
        none={t('inbox.orders.newest')}
        options={[{ value: 'value', label: t('inbox.orders.value') }]}
        onChange={(order) =>
          onView(order === 'value' ? { ...view, kind: 'value', order } : withOnly(view, 'order', undefined))
        }
      />
      <FilterChoice
        label={t('inbox.assignee')}
        value={view.assignee}
        none={t('inbox.anyone')}
        options={people}
        onChange={(assignee) => onView(withOnly(view, 'assignee', assignee))}
      />
      <FilterChoice
        label={t('inbox.person')}
        value={view.person}
        none={t('inbox.anyone')}
        options={people}
        onChange={(person) => onView(withOnly(view, 'person', person))}
      />
      <FilterChoice
        label={t('inbox.age')}
        value={view.days === undefined ? undefined : String(view.days)}
        none={t('inbox.anyAge')}
        options={AGES.map((days) => ({ value: String(days), label: t('inbox.olderThan', { count: days }) }))}
        onChange={(days) => onView(withOnly(view, 'days', days === undefined ? undefined : Number(days)))}
      />
      <FilterChoice
        label={t('common.field')}
        value={view.field}
        none={t('inbox.anyField')}
        options={fields.map((path) => ({ value: path, label: pathLabel(path) }))}
        onChange={(field) => onView(withOnly(view, 'field', field))}
      />
    </Popover>
  );
}

interface ChoiceProps {
  label: string;
  value: string | undefined;
  none: string;
  options: readonly SelectOption<string>[];
  onChange: (value: string | undefined) => void;
}

function FilterChoice({ label, value, none, options, onChange }: ChoiceProps) {
  return (
    <div className="grid gap-1">
      <span className="text-xs text-muted-foreground">{label}</span>
      <Select
        label={label}
        value={value ?? ALL}
        options={[{ value: ALL, label: none }, ...options]}
        onChange={(next) => onChange(next === ALL ? undefined : next)}
      />
    </div>
  );
}

function withOnly<Name extends keyof InboxView>(
  view: InboxView,
  name: Name,
  value: InboxView[Name] | undefined,
): InboxView {
  const { [name]: _, ...others } = view;
  return value === undefined ? others : { ...others, [name]: value };
}

function countText(count: { count: number; is_more: boolean } | undefined): string {
  return count === undefined ? '' : `${formatNumber(count.count)}${count.is_more ? '+' : ''}`;
}
