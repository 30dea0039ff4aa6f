/** The archive: all documents, to find, sort, choose and open. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, ArrowUp, FileText, Filter, Plus, Search, X } from 'lucide-react';
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import type { DocumentOrder, ListedDocument } from '../api/types';
import { Button } from '../components/ui/Button';
import { Checkbox } from '../components/ui/Checkbox';
import { cn } from '../components/ui/cn';
import { EmptyState } from '../components/ui/EmptyState';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { LoadingRows } from '../components/ui/Loading';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice } from '../components/ui/Notice';
import { Popover } from '../components/ui/Popover';
import { Select } from '../components/ui/Select';
import { StorageWarning } from './StorageUse';
import { useCanWrite } from '../session/role';
import { formatBytes, formatDays, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { AddPanel } from './AddFiles';
import { usePendingDeletions } from './deletions';
import { DocumentBar } from './DocumentBar';
import { countQuery, documentsQuery, tagsQuery, totalsQuery } from './documentQueries';
import { DocumentRow, gridClass } from './DocumentRow';
import { DropArea } from './DropArea';
import { chooseFiles } from './DropTarget';
import { type DocumentFilter, ORDERS, STAGES } from './filter';
import { listPosition } from './listPosition';
import { stageStatus } from './StageBadge';
import { Uploads } from './Uploads';
import { onUploaded } from './uploads';
import { refresh } from '../api/queryKeys';

const documentsRoute = getRouteApi('/documents');

const ROW = 40;
const MAX_CHOSEN = 1_000; // that the API takes at once
const SEARCH = { id: 'documents.search', keys: '/' } as const;

type Update = (change: (before: DocumentFilter) => DocumentFilter) => void;

export function DocumentsPage() {
  const filter = documentsRoute.useSearch();
  const update = useUpdateSearch<DocumentFilter>();
  const queries = useQueryClient();
  const listed = useInfiniteQuery({ ...documentsQuery(useDeferredValue(filter)), placeholderData: (before) => before });
  const totals = useQuery({ ...totalsQuery(filter), placeholderData: (before) => before }).data;
  const canWrite = useCanWrite();
  const going = usePendingDeletions();
  const documents = useMemo(
    () => (listed.data?.pages ?? []).flatMap((page) => page.items).filter((one) => !going.has(one.id)),
    [listed.data, going],
  );
  const choice = useChoice(documents);
  const [adding, setAdding] = useState<readonly string[] | null>(null);
  useEffect(() => onUploaded(() => void refresh(queries, 'documents')), [queries]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = listed;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const chooseAll = async () => {
    let loaded = listed.data?.pages ?? [];
    while (loaded.at(-1)?.next != null && loaded.flatMap((page) => page.items).length < MAX_CHOSEN)
      loaded = (await fetchNextPage()).data?.pages ?? [];
    choice.choose(loaded.flatMap((page) => page.items.map((one) => one.id)).slice(0, MAX_CHOSEN));
  };
  const isNarrowed = Object.keys(filter).some((key) => key !== 'sort' && key !== 'descending');
  const isNew = totals?.count === 0 && documents.length === 0 && !isNarrowed;
  return (
    <div className="relative flex h-full flex-col bg-background">
      <div className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1 border-b border-border px-4 py-1.5 sm:px-6">
        <h1 className="text-lg font-semibold">{t('areas.documents')}</h1>
        <Totals totals={totals} isNarrowed={isNarrowed} update={update} />
        <span className="flex-1" />
        {!isNew && (
          <>
            <NameSearch filter={filter} update={update} />
            <FilterButton filter={filter} update={update} />
            <SortMenu filter={filter} update={update} />
          </>
        )}
        {canWrite && !isNew && (
          <Button icon={Plus} onClick={chooseFiles}>
            <span className="max-lg:sr-only max-sm:not-sr-only">{t('stacks.addDocuments')}</span>
          </Button>
        )}
      </div>
      <StorageWarning />
      <Uploads />
      {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
      {listed.isPending ? (
        <LoadingRows height={ROW} />
      ) : documents.length === 0 && listed.isSuccess ? (
        <NoDocuments isNarrowed={isNarrowed} canWrite={canWrite} update={update} />
      ) : (
        <List key={documents.length === 0 ? 'none' : 'some'} {...{ documents, filter, canWrite, choice, more }} />
      )}
      {canWrite && choice.chosen.length > 0 && (
        <DocumentBar
          documents={choice.chosen}
          total={Math.min(totals?.count ?? 0, MAX_CHOSEN)}
          cost={totals?.average_cost_usd ?? null}
          onChooseAll={() => void chooseAll()}
          onAddToTable={() => setAdding(choice.chosen.map((one) => one.id))}
          onClear={choice.clear}
        />
      )}
      {adding !== null && (
        <AddPanel
          uploads={[]}
          documentIds={adding}
          onClose={() => {
            setAdding(null);
            choice.clear();
          }}
        />
      )}
    </div>
  );
}

/** The chosen documents, of those that are loaded. */
function useChoice(documents: readonly ListedDocument[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const last = useRef<string | null>(null);
  const order = useRef(documents);
  order.current = documents;
  const toggle = useCallback((id: string, isChosen: boolean, isRange: boolean) => {
    const [from, to] = [last.current, id].map((one) => order.current.findIndex((document) => document.id === one));
    const range =
      isRange && from! >= 0
        ? order.current.slice(Math.min(from!, to!), Math.max(from!, to!) + 1).map((one) => one.id)
        : [id];
    last.current = id;
    setIds((before) => new Set(isChosen ? [...before, ...range] : [...before].filter((one) => !range.includes(one))));
  }, []);
  return {
    ids,
    chosen: useMemo(() => documents.filter((one) => ids.has(one.id)), [documents, ids]),
    toggle,
    choose: (wanted: readonly string[]) => setIds(new Set(wanted)),
    clear: () => setIds(new Set()),
  };
}

interface ListProps {
  documents: readonly ListedDocument[];
  filter: DocumentFilter;
  canWrite: boolean;
  choice: ReturnType<typeof useChoice>;
  more: () => void;
}

function List({ documents, filter, canWrite, choice, more }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const key = JSON.stringify(filter);
  const [opened] = useState(key);
  const [offset] = useState(() => (key === JSON.stringify(listPosition.filter) ? listPosition.offset : 0));
  useEffect(() => {
    const element = scroller.current;
    if (key !== opened) element?.scrollTo({ top: 0 });
    Object.assign(listPosition, { filter, offset: element?.scrollTop ?? 0 });
  }, [key]);
  const virtual = useVirtualizer({
    initialOffset: offset,
    onChange: ({ scrollOffset }) => {
      if (scrollOffset !== null) listPosition.offset = scrollOffset;
    },
    count: documents.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    getItemKey: (index) => documents[index]?.id ?? index,
  });
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= documents.length - 30) more();
  }, [last, documents.length, more]);
  const isAll = choice.chosen.length === documents.length && documents.length > 0;
  return (
    <div
      ref={scroller}
      role="table"
      aria-label={t('areas.documents')}
      aria-rowcount={documents.length + 1}
      tabIndex={0}
      className="min-h-0 flex-1 overflow-y-auto outline-offset-[-2px]">
      <div
        role="row"
        className={cn(
          gridClass,
          'sticky top-0 z-[1] h-8 border-b border-border bg-sidebar text-xs text-muted-foreground',
        )}>
        <div role="columnheader" className="flex">
          {canWrite && (
            <Checkbox
              checked={isAll}
              isPartial={!isAll && choice.chosen.length > 0}
              label={t('documents.chooseAll')}
              onChange={(next) => (next ? choice.choose(documents.map((one) => one.id)) : choice.clear())}
            />
          )}
        </div>
        {COLUMNS.map(([column, className]) => (
          <div key={column} role="columnheader" className={className}>
            {t(`documents.columns.${column}`)}
          </div>
        ))}
      </div>
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() + ROW }}>
        {rows.map((row) => {
          const document = documents[row.index]!;
          const isChosen = choice.ids.has(document.id);
          return (
            <div
              key={row.key}
              role="row"
              aria-rowindex={row.index + 2}
              data-chosen={isChosen || undefined}
              className={cn(
                gridClass,
                'absolute inset-x-0 top-0 h-10 border-b border-line hover:bg-hover data-chosen:bg-accent',
              )}
              style={{ transform: `translateY(${row.start}px)` }}>
              <DocumentRow document={document} isChosen={isChosen} canChoose={canWrite} onChoose={choice.toggle} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

const COLUMNS = [
  ['document', ''],
  ['table', 'max-lg:hidden'],
  ['key', 'max-sm:hidden'],
  ['status', ''],
  ['pages', 'max-xl:hidden'],
  ['added', 'max-lg:hidden'],
] as const;

interface TotalsProps {
  totals: { count: number; pages: number; bytes: number } | undefined;
  isNarrowed: boolean;
  update: Update;
}

function Totals({ totals, isNarrowed, update }: TotalsProps) {
  const needed = useQuery(countQuery('needs_review')).data ?? 0;
  if (totals === undefined || totals.count === 0) return null;
  return (
    <span className="flex items-center gap-2 text-xs text-muted-foreground">
      <span className="text-sm">{formatNumber(totals.count)}</span>
      {needed > 0 && !isNarrowed && (
        <button
          type="button"
          className="min-h-6 rounded-full bg-need-bg px-2 font-medium text-need"
          onClick={() => update((before) => ({ ...before, status: 'needs_review' }))}>
          {t('documents.needYou', { count: needed })}
        </button>
      )}
      <span className="max-lg:hidden">
        {t('documents.size', { pages: t('common.pages', { count: totals.pages }), size: formatBytes(totals.bytes) })}
      </span>
    </span>
  );
}

interface ControlProps {
  filter: DocumentFilter;
  update: Update;
}

function NameSearch({ filter, update }: ControlProps) {
  const [name, setName] = useState(filter.name ?? '');
  const input = useRef<HTMLInputElement>(null);
  useShortcut(SEARCH, () => input.current?.focus());
  useEffect(() => {
    if (filter.name === undefined) setName('');
  }, [filter.name]);
  useEffect(() => {
    if (name === (filter.name ?? '')) return undefined;
    const timer = setTimeout(
      () => update(({ name: _, ...before }) => (name === '' ? before : { ...before, name })),
      200,
    );
    return () => clearTimeout(timer);
  }, [name]);
  return (
    <label className="relative flex items-center max-sm:w-full">
      <Search size={14} className="absolute left-2 text-muted-foreground" aria-hidden="true" />
      <Input
        ref={input}
        type="search"
        aria-label={t('documents.searchByName')}
        placeholder={t('documents.searchByName')}
        className="min-h-7! w-48! pl-7! max-lg:w-36! max-sm:w-full!"
        value={name}
        onValueChange={setName}
      />
    </label>
  );
}

function FilterButton({ filter, update }: ControlProps) {
  const tags = useQuery(tagsQuery).data?.items ?? [];
  const { status, tag, since, until } = filter;
  const isOn = status !== undefined || tag !== undefined || since !== undefined;
  return (
    <span className="flex items-center">
      <Popover
        align="end"
        className="w-64"
        trigger={
          <Button kind="quiet" icon={Filter} aria-pressed={isOn}>
            {t('tables.filter')}
          </Button>
        }>
        <div className="grid gap-3">
          <Field label={t('documents.status')}>
            <Select
              value={status ?? 'all'}
              options={[
                { value: 'all' as const, label: t('documents.allStatuses') },
                ...STAGES.map((stage) => ({ value: stage, ...stageStatus(stage) })),
              ]}
              onChange={(next) =>
                update(({ status: _, ...before }) => (next === 'all' ? before : { ...before, status: next }))
              }
            />
          </Field>
          {tags.length > 0 && (
            <Field label={t('documents.tag')}>
              <Select
                value={tag ?? ''}
                options={[
                  { value: '', label: t('common.allTags') },
                  ...tags.map((one) => ({ value: one.id, label: visibleText(one.name) })),
                ]}
                onChange={(next) =>
                  update(({ tag: _, ...before }) => (next === '' ? before : { ...before, tag: next }))
                }
              />
            </Field>
          )}
          {since !== undefined && until !== undefined && (
            <Button
              icon={X}
              aria-label={t('documents.allDays')}
              onClick={() => update(({ since: _, until: __, ...before }) => before)}>
              {formatDays(since, until)}
            </Button>
          )}
        </div>
      </Popover>
      {isOn && (
        <Button
          kind="quiet"
          icon={X}
          label={t('documents.clearFilters')}
          onClick={() =>
            update(({ sort, descending }) => ({ ...(sort && { sort }), ...(descending && { descending }) }))
          }
        />
      )}
    </span>
  );
}

/** The orders that are offered, the usual one first. */
const SORTS: readonly { sort: DocumentOrder; descending: boolean }[] = [
  { sort: 'added', descending: true },
  ...ORDERS.map((sort) => ({ sort, descending: sort === 'pages' || sort === 'review' })),
];

function SortMenu({ filter, update }: ControlProps) {
  const current = { sort: filter.sort ?? 'added', descending: filter.sort === undefined || filter.descending === true };
  const Sign = current.descending ? ArrowDown : ArrowUp;
  const text = ({ sort, descending }: (typeof SORTS)[number]) =>
    t(`documents.orders.${sort === 'added' && descending ? 'newest' : sort}`);
  return (
    <Menu
      trigger={
        <Button kind="quiet" icon={Sign} aria-label={t('documents.sortedBy', { order: text(current) })}>
          {text(current)}
        </Button>
      }>
      {SORTS.map((one, at) => (
        <MenuItem
          key={`${one.sort} ${one.descending}`}
          chosen={one.sort === current.sort && one.descending === current.descending}
          onChoose={() =>
            update(({ sort: _, descending: __, ...before }) =>
              at === 0 ? before : { ...before, sort: one.sort, ...(one.descending && { descending: true }) },
            )
          }>
          {text(one)}
        </MenuItem>
      ))}
    </Menu>
  );
}

function NoDocuments({ isNarrowed, canWrite, update }: { isNarrowed: boolean; canWrite: boolean; update: Update }) {
  if (isNarrowed)
    return (
      <EmptyState icon={Search} title={t('documents.noMatches')}>
        <Button onClick={() => update(() => ({}))}>{t('documents.clearFilters')}</Button>
      </EmptyState>
    );
  if (!canWrite) return <EmptyState icon={FileText} title={t('documents.none')} />;
  return <DropArea className="m-4 flex-1 sm:m-6" />;
}
