/** What the pages print and no field claims, in the order of reading: arrows go through, one key takes it as a field. */

import { useQueryClient } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import type { Extraction } from '../../api/types';
import { useDecisions } from '../../review/useDecisions';
import { Button } from '../../shared/Button';
import { count, visibleText } from '../../shared/format';
import { EmptyState, ErrorNotice } from '../../shared/Notice';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { extractionQuery } from '../documentPageQueries';
import { AddUnmappedField, type Draft } from './AddUnmappedField';
import styles from './Unmapped.module.css';
import { KINDS, type Unmapped } from './unmappedItems';
import type { ShownUnmapped } from './useUnmapped';

const ROW = 32;
const AREA = 'Not claimed';
const NEXT = { id: 'unmapped.next', area: AREA, words: 'Next', keys: 'j' };
const PREVIOUS = { id: 'unmapped.previous', area: AREA, words: 'The one before', keys: 'k' };
const TAKE = { id: 'unmapped.take', area: AREA, words: 'Take it as a field', keys: 't' };
const UNDO = { id: 'unmapped.undo', area: AREA, words: 'Take the last field back', keys: 'Mod+z' };

type Row = { page: number; count: number } | Unmapped;
const nothing = () => undefined;

export function UnmappedPanel({ extraction, unmapped }: { extraction: Extraction; unmapped: ShownUnmapped }) {
  const { query, items, all, counts, kinds, setKinds, focused, focus, choose, step, take } = unmapped;
  const queries = useQueryClient();
  const [isTaking, setTaking] = useState(false);
  const [drafts, setDrafts] = useState<ReadonlyMap<string, Draft>>(new Map());
  const tree = useRef<HTMLDivElement>(null);
  const seen = useCallback((id: string) => queries.ensureQueryData(extractionQuery(id)), [queries]);
  const decisions = useDecisions({ seen, mark: nothing });

  const rows = useMemo(() => {
    const countOf = new Map(counts?.map((one) => [one.page, one.count]));
    return items.flatMap((one, index): Row[] => {
      const isFirst = items[index - 1]?.page !== one.page;
      return isFirst ? [{ page: one.page, count: countOf.get(one.page) ?? 0 }, one] : [one];
    });
  }, [items, counts]);
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
  // The box takes room from the list: what it is about stays in sight.
  useEffect(() => {
    if (isTaking) tree.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [isTaking, at]);
  const hasItems = items.length > 0;
  useLayoutEffect(() => {
    if (!isTaking) tree.current?.focus({ preventScroll: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [hasItems]);
  const isAtWork = useRef(false);
  useLayoutEffect(() => {
    isAtWork.current = isTaking;
  });

  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const isNearEnd = (virtual.getVirtualItems().at(-1)?.index ?? 0) >= rows.length - 30;
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [isNearEnd, hasNextPage, isFetchingNextPage, fetchNextPage]);

  useShortcut(NEXT, () => step(1));
  useShortcut(PREVIOUS, () => step(-1));
  useShortcut(TAKE, () => setTaking(true), focused !== null);
  useShortcut(UNDO, decisions.undo, decisions.canUndo);

  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, Home: -items.length, End: items.length }[event.key];
    if (by !== undefined) step(by);
    else if (event.key === 'Enter') setTaking(true);
    else return;
    event.preventDefault();
  };
  const leave = () => {
    setTaking(false);
    tree.current?.focus({ preventScroll: true });
  };

  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return null;
  return (
    <div className={styles.panel}>
      <div className={styles.kinds} role="group" aria-label="What is shown">
        {KINDS.map(({ kind, words }) => (
          <Button
            key={kind}
            aria-pressed={kinds.has(kind)}
            onClick={() => setKinds(kinds.has(kind) ? new Set([...kinds].filter((one) => one !== kind)) : new Set([...kinds, kind]))}
          >
            {words}
            {!hasNextPage && <span className="muted">{all.filter((one) => one.kind === kind).length.toLocaleString()}</span>}
          </Button>
        ))}
        {decisions.canUndo && <Button onClick={decisions.undo}>Undo</Button>}
      </div>
      {rows.length === 0 ? (
        <EmptyState title="Nothing is left">
          <p>Each number and date of the pages, and what looks like a name, is in a field{all.length > 0 && ', or is not shown'}.</p>
        </EmptyState>
      ) : (
        <div
          ref={tree}
          className={styles.list}
          role="tree"
          aria-label="Not claimed"
          aria-activedescendant={at >= 0 ? `unmapped-${at}` : undefined}
          tabIndex={0}
          onKeyDown={move}
        >
          <div className={styles.rows} role="presentation" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map(({ index, start }) => {
              const row = rows[index]!;
              const style = { transform: `translateY(${start}px)` };
              if (!('id' in row)) {
                return (
                  <div key={index} id={`unmapped-${index}`} role="treeitem" aria-level={1} aria-expanded aria-selected={false} className={styles.of} style={style}>
                    Page {row.page} <span className="muted">{count(row.count, 'place')}</span>
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
                  className={styles.row}
                  style={style}
                  onClick={() => choose(row.id)}
                  onDoubleClick={() => setTaking(true)}
                >
                  <span className="truncate">{visibleText(row.text)}</span>
                  <span className="muted">{row.kind}</span>
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
          isOpen={isTaking}
          onOpen={() => setTaking(true)}
          onClose={leave}
          draft={drafts.get(focused.id)}
          onTake={(path, value, draft) => {
            leave();
            void take(focused, () => decisions.write(extraction.id, path, value)).then((isWritten) => {
              if (isWritten) return;
              // It is there again, as it was written; whoever is at the next already comes back to it by themselves.
              setDrafts((before) => new Map(before).set(focused.id, draft));
              if (isAtWork.current) return;
              focus(focused);
              setTaking(true);
            });
          }}
        />
      )}
    </div>
  );
}
