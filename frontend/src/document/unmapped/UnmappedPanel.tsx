/** Numbers and dates on the pages that belong to no field, by page. Arrow keys move, Enter adds one as a field. */

import { useQueryClient } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import type { Extraction } from '../../api/types';
import { useDecisions } from '../../fields/useDecisions';
import { Button } from '../../components/ui/Button';
import { formatNumber, visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { EmptyState } from '../../components/ui/EmptyState';
import { Loading } from '../../components/ui/Loading';
import { ErrorNotice } from '../../components/ui/Notice';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { extractionQuery } from '../../fields/extractionQueries';
import { AddUnmappedField, type Draft } from './AddUnmappedField';
import { KINDS, type Unmapped } from './unmappedItems';
import type { ShownUnmapped } from './useUnmapped';

const ROW = 32;
const NEXT = { id: 'unmapped.next', keys: 'j' } as const;
const PREVIOUS = { id: 'unmapped.previous', keys: 'k' } as const;
const ADD = { id: 'unmapped.add', keys: 't' } as const;
const UNDO = { id: 'unmapped.undo', keys: 'Mod+z' } as const;

type Row = { page: number; count: number } | Unmapped;
const noop = () => undefined;

export function UnmappedPanel({ extraction, unmapped }: { extraction: Extraction; unmapped: ShownUnmapped }) {
  const { query, items, all, counts, kinds, setKinds, focused, focus, choose, step, take } = unmapped;
  const queries = useQueryClient();
  const [isAdding, setAdding] = useState(false);
  const [drafts, setDrafts] = useState<ReadonlyMap<string, Draft>>(new Map());
  const tree = useRef<HTMLDivElement>(null);
  const seen = useCallback((id: string) => queries.ensureQueryData(extractionQuery(id)), [queries]);
  const decisions = useDecisions({ seen, mark: noop });

  const rows = useMemo(() => {
    const countOf = new Map(counts?.map((one) => [one.page, one.count]));
    return items.flatMap((one, index): Row[] => {
      const isFirst = items[index - 1]?.page !== one.page;
      return isFirst ? [{ page: one.page, count: countOf.get(one.page) ?? 0 }, one] : [one];
    });
  }, [items, counts]);
  const firstItem = rows.findIndex((row) => 'id' in row);
  const at = rows.findIndex((row) => 'id' in row && row.id === focused?.id);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => tree.current,
    estimateSize: () => ROW,
    overscan: 15,
  });
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: 'auto' });
  }, [at, virtual]);
  // The form takes room from the list: keep the selected row visible.
  useEffect(() => {
    if (isAdding) tree.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [isAdding, at]);
  const hasItems = items.length > 0;
  useLayoutEffect(() => {
    if (!isAdding) tree.current?.focus({ preventScroll: true });
  }, [hasItems]);
  const isAddingNow = useRef(false);
  useLayoutEffect(() => {
    isAddingNow.current = isAdding;
  });

  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const isNearEnd = (virtual.getVirtualItems().at(-1)?.index ?? 0) >= rows.length - 30;
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [isNearEnd, hasNextPage, isFetchingNextPage, fetchNextPage]);

  useShortcut(NEXT, () => step(1));
  useShortcut(PREVIOUS, () => step(-1));
  useShortcut(ADD, () => setAdding(true), focused !== null);
  useShortcut(UNDO, decisions.undo, decisions.canUndo);

  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, Home: -items.length, End: items.length }[event.key];
    if (by !== undefined) step(by);
    else if (event.key === 'Enter') setAdding(true);
    else return;
    event.preventDefault();
  };
  const leave = () => {
    setAdding(false);
    tree.current?.focus({ preventScroll: true });
  };

  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading />;
  // One kind needs no choice.
  const found = KINDS.filter((kind) => hasNextPage || all.some((one) => one.kind === kind));
  const shownKinds = found.length > 1 ? found : [];
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div
        className="flex shrink-0 flex-wrap gap-2 border-b border-border px-4 py-2 empty:hidden"
        role="group"
        aria-label={t('unmapped.show')}>
        {shownKinds.map((kind) => (
          <Button
            key={kind}
            aria-pressed={kinds.has(kind)}
            onClick={() =>
              setKinds(kinds.has(kind) ? new Set([...kinds].filter((one) => one !== kind)) : new Set([...kinds, kind]))
            }>
            {t(`unmapped.kinds.${kind}`)}
            {!hasNextPage && (
              <span className="font-normal text-muted-foreground">
                {formatNumber(all.filter((one) => one.kind === kind).length)}
              </span>
            )}
          </Button>
        ))}
        {decisions.canUndo && <Button onClick={decisions.undo}>{t('common.undo')}</Button>}
      </div>
      {rows.length === 0 ? (
        <EmptyState title={t('unmapped.none')}>
          <p>{t(all.length > 0 ? 'unmapped.noneShown' : 'unmapped.noneHint')}</p>
        </EmptyState>
      ) : (
        <div
          ref={tree}
          className="group/tree min-h-0 flex-1 overflow-auto px-2 pt-1 outline-none"
          role="tree"
          aria-label={t('document.unmapped')}
          aria-activedescendant={at >= 0 ? `unmapped-${at}` : undefined}
          tabIndex={0}
          onKeyDown={move}>
          <div className="relative" role="presentation" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map(({ index, start }) => {
              const row = rows[index]!;
              const style = { transform: `translateY(${start}px)` };
              if (!('id' in row)) {
                return (
                  <div
                    key={index}
                    id={`unmapped-${index}`}
                    role="treeitem"
                    aria-level={1}
                    aria-expanded
                    aria-selected={false}
                    className="absolute inset-x-0 flex h-8 items-center gap-2 px-2 text-xs text-muted-foreground"
                    style={style}>
                    {t('common.page', { page: row.page })} <span>{t('unmapped.values', { count: row.count })}</span>
                  </div>
                );
              }
              return (
                <div
                  key={index}
                  id={`unmapped-${index}`}
                  role="treeitem"
                  aria-level={2}
                  aria-selected={index === at}
                  data-current={index === (at >= 0 ? at : firstItem) || undefined}
                  className="absolute inset-x-0 grid h-8 grid-cols-[fit-content(60%)_minmax(0,1fr)] items-center gap-2 rounded-md px-2 group-focus-visible/tree:data-current:outline-2 group-focus-visible/tree:data-current:-outline-offset-2 hover:bg-hover aria-selected:bg-accent"
                  style={style}
                  onClick={() => choose(row.id)}
                  onDoubleClick={() => setAdding(true)}>
                  <span className="truncate">{visibleText(row.text)}</span>
                  <span className="truncate text-right text-xs text-muted-foreground">
                    {row.before === '' ? t(`unmapped.kind.${row.kind}`) : visibleText(row.before.slice(-40))}
                  </span>
                </div>
              );
            })}
          </div>
        </div>
      )}
      {focused !== null && (
        <AddUnmappedField
          key={focused.id}
          extraction={extraction}
          item={focused}
          isOpen={isAdding}
          onOpen={() => setAdding(true)}
          onClose={leave}
          draft={drafts.get(focused.id)}
          onAdd={(path, value, draft) => {
            leave();
            void take(focused, () => decisions.write(extraction.id, path, value)).then((isWritten) => {
              if (isWritten) return;
              // Saving failed: keep the draft, and open it again unless the person is adding another value.
              setDrafts((before) => new Map(before).set(focused.id, draft));
              if (isAddingNow.current) return;
              focus(focused);
              setAdding(true);
            });
          }}
        />
      )}
    </div>
  );
}
