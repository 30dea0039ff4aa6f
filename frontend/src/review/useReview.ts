/** The state of the review: the queue, the current document and field, and decisions. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Extraction, RuleFix } from '../api/types';
import { extractionQuery, pageImageQuery, pageQuery, problemsQuery, ruleFixesQuery, schemaOfQuery } from '../document/documentPageQueries';
import { fieldRows, type Leaf } from '../document/fields/fieldTree';
import { useMarkReviewed } from '../document/MarkReviewed';
import { schemaFields } from '../document/schemaFields';
import { countQuery } from '../documents/documentQueries';
import { fieldsToReview } from './fieldsToReview';
import { cropQuery } from './Crop';
import { queueQuery } from './reviewQueries';
import { useDecisions } from './useDecisions';

const NONE: ReadonlySet<string> = new Set();
const NO_RULE_FIXES: readonly RuleFix[] = [];

export function useReview(first: string | undefined) {
  const queries = useQueryClient();
  const queue = useInfiniteQuery(queueQuery);
  const total = useQuery(countQuery('needs_review'));
  // Documents with skipped values: not to be marked as reviewed.
  const [skipped, setSkipped] = useState<ReadonlySet<string>>(NONE);
  const [over, setOver] = useState<ReadonlySet<string>>(NONE);
  const [done, setDone] = useState<ReadonlyMap<string, ReadonlySet<string>>>(new Map());

  // The extraction in the address comes first, whether or not it is in the queue.
  const named = useQuery({ ...extractionQuery(first ?? ''), enabled: first !== undefined });
  const namedOne = named.data === undefined ? undefined : { id: named.data.id, document_id: named.data.document_id };
  const waiting = useMemo(() => {
    const items = (queue.data?.pages ?? []).flatMap((page) => page.items).filter((one) => one.id !== first);
    return (first === undefined ? items : namedOne === undefined ? [] : [namedOne, ...items]).filter((one) => !over.has(one.id));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [queue.data, first, namedOne?.id, over]);
  const summary = waiting[0];
  const id = summary?.id ?? '';
  const extraction = useQuery({ ...extractionQuery(id), enabled: id !== '' });
  const stored = extraction.data;
  const problems = useQuery({ ...problemsQuery(id, stored?.version ?? 0), enabled: stored?.valid === false });
  const errors = stored?.valid === false ? problems.data?.errors : undefined;
  const breaksRule = errors?.some((one) => one.about.length > 0) === true;
  const fixes = useQuery({ ...ruleFixesQuery(id, stored?.version ?? 0), enabled: breaksRule });
  const { data: ruleFixes = NO_RULE_FIXES } = fixes;
  // Which fields fail a rule is known once the errors are loaded.
  const isKnown = stored !== undefined && (stored.valid !== false || errors !== undefined) && !(breaksRule && fixes.isPending);
  const schemaOf = useQuery({ ...schemaOfQuery(id), enabled: id !== '' });
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const rows = useMemo(() => (stored === undefined ? [] : fieldRows({ extraction: stored, ruleFixes, schema, ...(errors && { errors }) })), [stored, errors, ruleFixes, schema]);
  const left = useMemo(() => fieldsToReview(rows, done.get(id) ?? NONE), [rows, done, id]);
  const field = left[0];

  const leave = useCallback((extractionId: string) => setOver((before) => new Set(before).add(extractionId)), []);
  const finish = useMarkReviewed();
  // Nothing left: go to the next document, after asking to mark this one as reviewed. An extraction that an agent has
  // completed is marked when its last value is decided.
  const isFinished = isKnown && id !== '' && left.length === 0;
  const asksToFinish = isFinished && stored?.status !== 'completed' && !skipped.has(id);
  const wasDecided = !skipped.has(id) && (done.get(id)?.size ?? 0) > 0;
  useEffect(() => {
    if (!isFinished || asksToFinish) return;
    leave(id);
    if (wasDecided) void settled().then(() => markDecided(queries, id, finish.mutate));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isFinished, asksToFinish, leave, id, wasDecided]);
  // Poll while the queue is empty.
  const isEmpty = queue.isSuccess && waiting.length === 0 && !queue.hasNextPage && first === undefined;
  const { refetch } = queue;
  useEffect(() => {
    if (!isEmpty) return undefined;
    const timer = setInterval(() => void refetch(), 5000);
    return () => clearInterval(timer);
  }, [isEmpty, refetch]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = queue;
  useEffect(() => {
    if (waiting.length < 5 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [waiting.length, hasNextPage, isFetchingNextPage, fetchNextPage]);

  // Prefetch the next document.
  const next = waiting[1];
  useEffect(() => {
    if (next === undefined) return;
    void queries.ensureQueryData(extractionQuery(next.id)).then((one) => prepare(queries, one)).catch(() => undefined);
  }, [queries, next?.id]); // eslint-disable-line react-hooks/exhaustive-deps
  // Prefetch the next excerpts.
  useEffect(() => {
    if (stored === undefined) return;
    for (const one of left.slice(0, 3)) prefetchCrop(queries, stored.document_id, one);
  }, [queries, stored, left]);

  const mark = useCallback((extractionId: string, path: string, is: boolean) => {
    setDone((before) => {
      const paths = new Set(before.get(extractionId));
      if (is) paths.add(path);
      else paths.delete(path);
      return new Map(before).set(extractionId, paths);
    });
    if (!is) setOver((before) => without(before, extractionId));
  }, []);
  const seen = useCallback((extractionId: string) => queries.ensureQueryData(extractionQuery(extractionId)), [queries]);
  const { write, confirm, decideProposals, settled, ...decisions } = useDecisions({ seen, mark });
  const isStillFinished = useRef(false);
  isStillFinished.current = asksToFinish;

  return {
    queue,
    isLoaded: queue.isSuccess,
    again: () => {
      setOver(NONE);
      setDone(new Map());
      setSkipped(NONE);
      void Promise.all([queue.refetch(), total.refetch()]);
    },
    documents: queue.hasNextPage ? Math.max(waiting.length, total.data ?? 0) : waiting.length,
    errors: errors ?? [],
    asksToFinish,
    isFinishing: finish.isPending,
    finish: async () => {
      await settled();
      const now = queries.getQueryData(extractionQuery(id).queryKey);
      // If saving a decision failed, its field is asked about again first.
      if (now !== undefined && isStillFinished.current && !finish.isPending) finish.mutate(now, { onSuccess: () => leave(id) });
    },
    leave: () => leave(id),
    summary,
    extraction: stored,
    error: extraction.error ?? named.error,
    rows,
    schema,
    ruleFixes,
    field,
    left: left.length,
    ...decisions,
    write: (path: string, value: unknown) => void write(id, path, value),
    confirm: (path: string) => void confirm(id, path),
    decideProposals: (path: string, accepted: boolean) => void decideProposals(id, path, stored?.proposals.filter((one) => one.path === path) ?? [], accepted),
    skip: (path: string) => {
      setSkipped((before) => new Set(before).add(id));
      mark(id, path, true);
    },
    leaveEmpty: (path: string) => mark(id, path, true),
  };
}

function without(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const others = new Set(ids);
  others.delete(id);
  return others;
}

type Queries = ReturnType<typeof useQueryClient>;

/** Mark an extraction as reviewed, unless saving one of its decisions failed or it is reviewed already. */
function markDecided(queries: Queries, id: string, mark: (extraction: Extraction) => void): void {
  const now = queries.getQueryData(extractionQuery(id).queryKey);
  if (now?.status === 'completed' && now.reviewed_by === null && fieldsToReview(fieldRows({ extraction: now }), NONE).length === 0) mark(now);
}

function prepare(queries: Queries, extraction: Extraction): void {
  const field = fieldsToReview(fieldRows({ extraction }), NONE)[0];
  const page = field?.evidence?.page ?? 1;
  void queries.prefetchQuery(pageImageQuery(extraction.document_id, page));
  void queries.prefetchQuery(pageQuery(extraction.document_id, page));
  if (field !== undefined) prefetchCrop(queries, extraction.document_id, field);
}

function prefetchCrop(queries: Queries, documentId: string, { evidence }: Leaf): void {
  const box = evidence?.boxes?.[0];
  if (evidence?.page != null && box !== undefined) void queries.prefetchQuery(cropQuery(documentId, evidence.page, box));
}
