/** Going through what evidence does not settle: where one is, what was decided, and the way back. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useState } from 'react';
import { answer, api } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { extractionQuery, pageImageQuery, pageQuery, problemsQuery } from '../document/documentPageQueries';
import { fieldRows, type Leaf } from '../document/fields/fieldTree';
import { sentenceOf } from '../shared/Notice';
import { tell } from '../shared/Toasts';
import { attention } from './attention';
import { cropQuery } from './Crop';
import { toCheckQuery } from './reviewQueries';

/** What can be taken back: a value that was written or confirmed. */
interface Decided {
  extractionId: string;
  path: string;
  /** The version before, and after: the same where a value was confirmed. */
  before: number;
  after: number;
  /** Whether a person had set it before, too. */
  wasLocked: boolean;
}

const NONE: ReadonlySet<string> = new Set();

export function useReview(first: string | undefined) {
  const queries = useQueryClient();
  const queue = useInfiniteQuery(toCheckQuery);
  const [over, setOver] = useState<ReadonlySet<string>>(NONE);
  const [done, setDone] = useState<ReadonlyMap<string, ReadonlySet<string>>>(new Map());
  const [decided, setDecided] = useState<readonly Decided[]>([]);
  const [times, setTimes] = useState<readonly number[]>([]);

  const waiting = useMemo(() => {
    const items = (queue.data?.pages ?? []).flatMap((page) => page.items);
    const named = items.filter((one) => one.id === first);
    return [...named, ...items.filter((one) => one.id !== first)].filter((one) => !over.has(one.id));
  }, [queue.data, first, over]);
  const summary = waiting[0];
  const id = summary?.id ?? '';
  const extraction = useQuery({ ...extractionQuery(id), enabled: id !== '' });
  const stored = extraction.data;
  const problems = useQuery({ ...problemsQuery(id, stored?.version ?? 0), enabled: stored?.valid === false });
  const errors = stored?.valid === false ? problems.data?.errors : undefined;
  // Which fields break a rule is not known before the rules were asked for.
  const isKnown = stored !== undefined && (stored.valid !== false || errors !== undefined);
  const rows = useMemo(() => (stored === undefined ? [] : fieldRows({ extraction: stored, ...(errors && { errors }) })), [stored, errors]);
  const left = useMemo(() => attention(rows, done.get(id) ?? NONE), [rows, done, id]);
  const field = left[0];

  // Nothing left here: to the next document.
  useEffect(() => {
    if (isKnown && id !== '' && left.length === 0) setOver((before) => new Set(before).add(id));
  }, [isKnown, id, left.length]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = queue;
  useEffect(() => {
    if (waiting.length < 5 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [waiting.length, hasNextPage, isFetchingNextPage, fetchNextPage]);

  // The next document is there before it is come to.
  const next = waiting[1];
  useEffect(() => {
    if (next === undefined) return;
    void queries.ensureQueryData(extractionQuery(next.id)).then((one) => prepare(queries, one)).catch(() => undefined);
  }, [queries, next?.id]); // eslint-disable-line react-hooks/exhaustive-deps
  // And the next crops, too.
  useEffect(() => {
    if (stored === undefined) return;
    for (const one of left.slice(0, 3)) prefetchCrop(queries, stored.document_id, one);
  }, [queries, stored, left]);

  const mark = useCallback((extractionId: string, path: string, is: boolean) => {
    setDone((before) => {
      const those = new Set(before.get(extractionId));
      if (is) those.add(path);
      else those.delete(path);
      return new Map(before).set(extractionId, those);
    });
  }, []);

  const put = useCallback(
    (changed: ChangedExtraction) => {
      const { problems: said, errors: wrong, ...now } = changed;
      // What was asked for before this was written would put the version before in its place.
      void queries.cancelQueries({ queryKey: ['extraction', changed.id] });
      queries.setQueryData(['problems', changed.id, changed.version], { version: changed.version, problems: said, errors: wrong });
      queries.setQueryData(['extraction', changed.id], now);
    },
    [queries],
  );

  /** One after the other: each has the version of the one before. */
  const [chain] = useState<{ last: Promise<unknown> }>(() => ({ last: Promise.resolve() }));
  const inTurn = useCallback((act: () => Promise<void>) => (chain.last = chain.last.then(act, act)), [chain]);

  const decide = useCallback(
    (path: string, ask: (current: Extraction) => Promise<unknown>) => {
      if (id === '') return;
      mark(id, path, true); // shown as done at once
      setTimes((before) => [...before, performance.now()]);
      void inTurn(async () => {
        const current = queries.getQueryData<Extraction>(['extraction', id]);
        if (current === undefined) return;
        try {
          const changed = (await ask(current)) as ChangedExtraction;
          put(changed);
          const wasLocked = current.locks[path] !== undefined;
          if (changed.version === current.version && wasLocked) return; // a proposal was rejected: that stays
          const one = { extractionId: id, path, before: current.version, after: changed.version, wasLocked };
          setDecided((before) => [...before, one]);
        } catch (error) {
          setTimes((before) => before.slice(0, -1));
          mark(id, path, false);
          setOver((before) => without(before, id));
          tell(sentenceOf(error), { urgent: true });
          await queries.invalidateQueries({ queryKey: ['extraction', id] });
        }
      });
    },
    [id, inTurn, mark, put, queries],
  );

  const write = useCallback(
    (path: string, value: unknown) =>
      decide(path, async (current) => {
        const header = { 'if-match': `"${current.version}"` };
        const changed = (await answer(
          api.PATCH('/api/extractions/{extraction_id}/fields', { params: { path: { extraction_id: current.id }, header }, body: { path, value } }),
        )) as ChangedExtraction;
        if (!changed.proposals.some((one) => one.path === path)) return changed;
        // What somebody wrote stands: not what an agent proposed there. Where this fails, it is asked about again.
        return answerProposals(changed, path, false).catch(() => changed);
      }),
    [decide],
  );

  /** The value stands as it is: not as JavaScript reads it, which keeps no more than some 15 digits. */
  const confirm = useCallback(
    (path: string) =>
      decide(path, (current) => {
        const params = { path: { extraction_id: current.id }, query: { path }, header: { 'if-match': `"${current.version}"` } };
        return answer(api.POST('/api/extractions/{extraction_id}/locks', { params }));
      }),
    [decide],
  );

  const decideProposals = useCallback(
    (path: string, accepted: boolean) => decide(path, (current) => answerProposals(current, path, accepted)),
    [decide],
  );

  const skip = useCallback((path: string) => mark(id, path, true), [id, mark]);

  const undo = useCallback(
    () =>
      void inTurn(async () => {
        const last = decided.at(-1);
        if (last === undefined) return;
        const path = { extraction_id: last.extractionId };
        try {
          let version = last.after;
          if (last.before !== last.after) {
            const header = { 'if-match': `"${last.after}"` };
            const params = { path, header };
            const back = (await answer(api.POST('/api/extractions/{extraction_id}/restore', { params, body: { version: last.before } }))) as ChangedExtraction;
            put(back);
            version = back.version;
          }
          // A lock is no part of a version: what was restored is locked, and what was confirmed still is.
          if (!last.wasLocked) {
            const params = { path, header: { 'if-match': `"${version}"` }, query: { path: last.path } };
            put((await answer(api.DELETE('/api/extractions/{extraction_id}/locks', { params }))) as ChangedExtraction);
          }
          // The same stands there under another number: the decision before this one led to it.
          const same = (one: Decided) => (one.extractionId === last.extractionId && one.after === last.before ? { ...one, after: version } : one);
          setDecided((before) => before.slice(0, -1).map(same));
          setTimes((before) => before.slice(0, -1));
          mark(last.extractionId, last.path, false);
          setOver((before) => without(before, last.extractionId));
        } catch (error) {
          tell(sentenceOf(error), { urgent: true });
        }
      }),
    [decided, inTurn, mark, put],
  );

  return {
    queue,
    documents: waiting.length,
    summary,
    extraction: stored,
    error: extraction.error,
    rows,
    field,
    left: left.length,
    times,
    canUndo: decided.length > 0,
    write,
    confirm,
    decideProposals,
    skip,
    undo,
  };
}

function without(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const others = new Set(ids);
  others.delete(id);
  return others;
}

function answerProposals(current: Extraction, path: string, accepted: boolean) {
  const decisions = current.proposals.filter((one) => one.path === path).map((one) => ({ id: one.id, accepted }));
  return answer(
    api.POST('/api/extractions/{extraction_id}/proposals', { params: { path: { extraction_id: current.id } }, body: { decisions } }),
  );
}

type Queries = ReturnType<typeof useQueryClient>;

function prepare(queries: Queries, extraction: Extraction): void {
  const field = attention(fieldRows({ extraction }), NONE)[0];
  const page = field?.evidence?.page ?? 1;
  void queries.prefetchQuery(pageImageQuery(extraction.document_id, page));
  void queries.prefetchQuery(pageQuery(extraction.document_id, page));
  if (field !== undefined) prefetchCrop(queries, extraction.document_id, field);
}

function prefetchCrop(queries: Queries, documentId: string, { evidence }: Leaf): void {
  const box = evidence?.boxes?.[0];
  if (evidence?.page != null && box !== undefined) void queries.prefetchQuery(cropQuery(documentId, evidence.page, box));
}
