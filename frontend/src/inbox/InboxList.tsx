/** The list of the inbox, with its filters and counts. */

import { useQuery } from '@tanstack/react-query';
import { CircleDashed, CircleHelp, type LucideIcon, ShieldCheck, Sparkles, TriangleAlert } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Kbd } from '../components/ui/Kbd';
import { Select } from '../components/ui/Select';
import { usePersonName } from '../session/people';
import { useOrganisation } from '../session/role';
import { membersQuery } from '../settings/settingsQueries';
import { formatAge, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { itemKey, tablesQuery, type InboxItem } from './inboxQueries';
import { KINDS, type InboxKind, type InboxView } from './inboxView';
import { itemTitle } from './inboxText';

const ALL = 'all';
const AGES = [1, 7, 30] as const;
const KEY_HINTS = [
  { keys: ['J', 'K'], action: 'move' },
  { keys: ['↵'], action: 'answer' },
  { keys: ['A'], action: 'approve' },
] as const;

export interface Count {
  count: number;
  is_more: boolean;
}

interface Props {
  items: readonly InboxItem[];
  counts: Readonly<Record<string, Count>> | undefined;
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
    <div className={cn('min-h-0 flex-col border-r border-border bg-sidebar', className)}>
      <div className="flex h-12 shrink-0 items-center gap-1 border-b border-border px-4">
        <h1 className="flex-1 text-md font-semibold">
          {t('areas.inbox')} <span className="font-normal text-muted-foreground">{countText(total(counts))}</span>
        </h1>
        <TableFilter view={view} onView={onView} />
        <PersonFilter view={view} onView={onView} />
      </div>
      <div className="flex shrink-0 items-center gap-1 overflow-x-auto border-b border-border px-2 py-1.5">
        {[undefined, ...KINDS].map((kind) => (
          <button
            key={kind ?? ALL}
            type="button"
            aria-pressed={view.kind === kind}
            onClick={() => onView(kindOf(view, kind))}
            className="min-h-7 shrink-0 rounded-full px-2 text-xs whitespace-nowrap text-muted-foreground hover:bg-hover aria-pressed:bg-accent aria-pressed:font-medium aria-pressed:text-link max-md:min-h-11 max-md:px-3">
            {t(`inbox.kinds.${kind ?? ALL}`)} {countText(kind === undefined ? total(counts) : counts?.[kind])}
          </button>
        ))}
        <AgeFilter view={view} onView={onView} />
      </div>
      <ul ref={list} className="min-h-0 flex-1 overflow-y-auto" aria-label={t('areas.inbox')}>
        {items.map((item) => {
          const key = itemKey(item);
          return (
            <li key={key}>
              <button
                type="button"
                aria-current={key === chosen ? 'true' : undefined}
                onClick={() => onChoose(key)}
                className="flex min-h-[53px] w-full items-start gap-3 border-b border-l-2 border-line border-l-transparent px-3 py-2 text-left hover:bg-hover aria-[current]:border-l-primary aria-[current]:bg-accent">
                <ItemIcon item={item} />
                <span className="min-w-0 flex-1">
                  <span className="flex gap-2">
                    <span className="min-w-0 flex-1 truncate font-medium">{itemTitle(item)}</span>
                    <span className="shrink-0 text-xs text-muted-foreground">{formatAge(item.created_at)}</span>
                  </span>
                  <span className="block truncate text-xs text-muted-foreground">
                    {[item.filename, item.kind === 'suggestion' ? null : item.table]
                      .filter((one) => one !== null)
                      .map((one) => visibleText(one))
                      .join(' · ')}
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
      <p className="flex shrink-0 items-center justify-center gap-3 border-t border-border px-3 py-2 text-xs text-muted-foreground max-lg:hidden">
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

function TableFilter({ view, onView }: Pick<Props, 'view' | 'onView'>) {
  const tables = useQuery(tablesQuery);
  return (
    <Select
      kind="quiet"
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

function PersonFilter({ view, onView }: Pick<Props, 'view' | 'onView'>) {
  const organisation = useOrganisation();
  const personName = usePersonName();
  const members = useQuery({
    ...membersQuery(organisation?.id ?? ''),
    enabled: organisation !== undefined,
    staleTime: 60_000,
  });
  return (
    <Select
      kind="quiet"
      label={t('inbox.person')}
      value={view.person ?? ALL}
      options={[
        { value: ALL, label: t('inbox.anyone') },
        ...(members.data?.items ?? []).map((one) => ({ value: one.user_id, label: personName(one.user_id) })),
      ]}
      onChange={(person) => onView(withOnly(view, 'person', person === ALL ? undefined : person))}
    />
  );
}

function AgeFilter({ view, onView }: Pick<Props, 'view' | 'onView'>) {
  return (
    <Select
      kind="quiet"
      label={t('inbox.age')}
      className="text-xs"
      value={String(view.days ?? ALL)}
      options={[
        { value: ALL, label: t('inbox.anyAge') },
        ...AGES.map((days) => ({ value: String(days), label: t('inbox.olderThan', { count: days }) })),
      ]}
      onChange={(days) => onView(withOnly(view, 'days', days === ALL ? undefined : Number(days)))}
    />
  );
}

function withOnly<Name extends keyof InboxView>(view: InboxView, name: Name, value: InboxView[Name]): InboxView {
  const { [name]: _, ...others } = view;
  return value === undefined ? others : { ...others, [name]: value };
}

function kindOf(view: InboxView, kind: InboxKind | undefined): InboxView {
  return withOnly(view, 'kind', kind);
}

export function total(counts: Props['counts']): Count | undefined {
  if (counts === undefined) return undefined;
  const all = Object.values(counts);
  return { count: all.reduce((sum, one) => sum + one.count, 0), is_more: all.some((one) => one.is_more) };
}

function countText(count: Count | undefined): string {
  return count === undefined ? '' : `${formatNumber(count.count)}${count.is_more ? '+' : ''}`;
}
