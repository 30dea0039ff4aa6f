/** Unmapped text of an extraction, and the selected item. */

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useState } from 'react';
import type { Box, Extraction } from '../../api/types';
import { formatNumber } from '../../shared/format';
import { compare, KINDS, nearest, withId, type Kind, type Unmapped } from './unmappedItems';
import { unmappedQuery } from './unmappedQueries';

const ALL: ReadonlySet<Kind> = new Set(KINDS);
const NONE: readonly Unmapped[] = [];

export type ShownUnmapped = ReturnType<typeof useUnmapped>;

/** Loads nothing before it is shown. `show` scrolls to a location. */
export function useUnmapped(
  extraction: Extraction | undefined,
  isShown: boolean,
  show: (page: number, box: Box) => void,
) {
  const isOn = isShown && extraction !== undefined;
  const query = useInfiniteQuery({
    ...unmappedQuery(extraction?.id ?? '', extraction?.version ?? 0),
    enabled: isOn,
    placeholderData: keepPreviousData,
  });
  const { data, isPlaceholderData } = query;
  const [kinds, setKinds] = useState(ALL);
  const [taken, setTaken] = useState<ReadonlyMap<string, 'writing' | 'written'>>(new Map());
  const [last, setLast] = useState<Unmapped | null>(null);

  const all = useMemo(
    () => (isOn ? (data?.pages ?? []).flatMap((page) => page.items.map(withId).sort(compare)) : NONE),
    [data, isOn],
  );
  const items = useMemo(() => all.filter((one) => kinds.has(one.kind) && !taken.has(one.id)), [all, kinds, taken]);
  // If the selected item was mapped meanwhile, select the next one.
  const focused =
    last === null ? (items[0] ?? null) : (items.find((one) => one.id === last.id) ?? nearest(items, last) ?? null);

  // Loaded again: added items are no longer listed, unless the service could not match them to their location.
  useEffect(() => {
    if (!isPlaceholderData)
      setTaken((before) =>
        before.size === 0 ? before : new Map([...before].filter(([, state]) => state === 'writing')),
      );
  }, [data, isPlaceholderData]);

  const focus = useCallback(
    (one: Unmapped | undefined) => {
      if (one === undefined) return;
      setLast(one);
      const [box] = one.boxes;
      if (box !== undefined) show(one.page, box);
    },
    [show],
  );
  const choose = useCallback((id: string) => focus(items.find((one) => one.id === id)), [focus, items]);
  const step = useCallback(
    (by: number) => {
      const at = items.findIndex((one) => one.id === focused?.id);
      focus(items[Math.max(0, Math.min(items.length - 1, at + by))]);
    },
    [focus, focused, items],
  );
  /** Add an item as a field and select the next one at once. If saving fails, the item is listed again. */
  const take = useCallback(
    async (one: Unmapped, write: () => Promise<boolean>): Promise<boolean> => {
      const at = items.findIndex((other) => other.id === one.id);
      setTaken((before) => new Map(before).set(one.id, 'writing'));
      focus(items[at + 1] ?? items[at - 1]);
      const isWritten = await write();
      setTaken((before) => {
        const now = new Map(before);
        if (isWritten) now.set(one.id, 'written');
        else now.delete(one.id);
        return now;
      });
      return isWritten;
    },
    [focus, items],
  );
  const counts = data?.pages.flatMap((page) => page.pages);
  return {
    isShown,
    query,
    items,
    all,
    /** The number of items of all kinds, by page, as far as loaded. */
    counts,
    count:
      isOn && counts !== undefined
        ? `${formatNumber(counts.reduce((sum, one) => sum + one.count, 0))}${query.hasNextPage ? '+' : ''}`
        : null,
    kinds,
    setKinds,
    focused: isOn ? focused : null,
    focus,
    choose,
    step,
    take,
  };
}
