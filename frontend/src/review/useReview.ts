/** The state of the review: the queue, the current document and field, and decisions. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useState } from 'react';
import type { Evidence, Extraction, RuleFix } from '../api/types';
import {
  extractionQuery,
  pageImageQuery,
  pageQuery,
  problemsQuery,
  ruleFixesQuery,
  schemaOfQuery,
} from '../document/documentPageQueries';
import { fieldRows, type FieldRow } from '../document/fields/fieldTree';
import { proposalOf } from '../document/fields/proposals';
import { useMarkReviewed } from '../document/MarkReviewed';
import { schemaFields } from '../document/schemaFields';
import { countQuery } from '../documents/documentQueries';
import { fieldsToReview, type Decided } from './fieldsToReview';
import { cropQuery } from './Crop';
import { queueQuery } from './reviewQueries';
import { useDecisions } from './useDecisions';

const NONE: ReadonlySet<string> = new Set();
const NOTHING_DECIDED: Decided = new Map();
const NO_RULE_FIXES: readonly RuleFix[] = [];

export function useReview(first: string | undefined) {
  const queries = useQueryClient();
  const queue = useInfiniteQuery(queueQuery);
  const total = useQuery(countQuery('needs_review'));
  // Documents with skipped values: not to be marked as reviewed.
  const [skipped, setSkipped] = useState<ReadonlySet<string>>(NONE);
  const [over, setOver] = useState<ReadonlySet<string>>(NONE);
  /** Left, and not done. */
  const [returned, setReturned] = useState<ReadonlySet<string>>(NONE);
  const [decided, setDecided] = useState<ReadonlyMap<string, Decided>>(new Map());

  // The extraction in the address comes first, whether or not it is in the queue.
  const named = useQuery({ ...extractionQuery(first ?? ''), enabled: first !== undefined });
  const namedOne = named.data === undefined ? undefined : { id: named.data.id, document_id: named.data.document_id };
  const waiting = useMemo(() => {
    const all = new Map((queue.data?.pages ?? []).flatMap((page) => page.items).map((one) => [one.id, one]));
    const items = [...all.values()].filter((one) => one.id !== first);
    return (first === undefined ? items : namedOne === undefined ? [] : [namedOne, ...items])
      .filter((one) => !over.has(one.id))
      .sort((a, b) => Number(returned.has(a.id)) - Number(returned.has(b.id)));
  }, [queue.data, first, namedOne?.id, over, returned]);
  const summary = waiting[0];
  const id = summary?.id ?? '';
  const extraction = useQuery({ ...extractionQuery(id), enabled: id !== '' });
  const stored = extraction.data;
  const problems = useQuery({ ...problemsQuery(id, stored?.version ?? 0), enabled: stored?.valid === false });
  const errors = stored?.valid === false ? problems.data?.errors : undefined;
  const breaksRule = errors?.some((one) => one.about.length > 0) === true;
  const fixes = useQuery({ ...ruleFixesQuery(id, stored?.version ?? 0), enabled: breaksRule });
  const { data: ruleFixes = NO_RULE_FIXES } = fixes;
  const schemaOf = useQuery({ ...schemaOfQuery(id), enabled: id !== '' });
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const rows = useMemo(
    () => (stored === undefined ? [] : fieldRows({ extraction: stored, ruleFixes, schema, ...(errors && { errors }) })),
    [stored, errors, ruleFixes, schema],
  );
  const ofThis = decided.get(id) ?? NOTHING_DECIDED;
  const left = useMemo(() => fieldsToReview(rows, ofThis), [rows, ofThis]);
  const field = left[0];

  const leave = useCallback((extractionId: string) => setOver((before) => new Set(before).add(extractionId)), []);
  const finish = useMarkReviewed();
  // Nothing left: go to the next document at once. When all is saved, an extraction that an agent has completed is marked as
  // reviewed; it comes back, as the last one, if a field still needs a person. Other extractions are asked about: those that
  // no one has completed, and those that break the schema as a whole.
  const states = [...ofThis.values()];
  const isPending = states.includes('pending');
  const isSkipped = skipped.has(id);
  const isFinished = stored !== undefined && left.length === 0 && !(isPending && stored.status !== 'completed');
  const asksToFinish =
    isFinished && !isPending && !isSkipped && (stored.status !== 'completed' || stored.review_count > 0);
  useEffect(() => {
    if (!isFinished || asksToFinish) return;
    leave(id);
    if (states.length > 0 && !isSkipped) void settled().then(() => reviewed(id));
  }, [isFinished, asksToFinish, leave, id]);
  const reviewed = (extractionId: string) => {
    const now = queries.getQueryData(extractionQuery(extractionId).queryKey);
    if (now === undefined || now.status !== 'completed') return;
    if (now.review_count === 0) return now.reviewed_by === null ? finish.mutate(now) : undefined;
    setReturned((before) => new Set(before).add(extractionId));
    setOver((before) => without(before, extractionId));
  };
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
    void queries
      .ensureQueryData(extractionQuery(next.id))
      .then((one) => prepare(queries, one))
      .catch(() => undefined);
  }, [queries, next?.id]);
  // Prefetch the next excerpts.
  useEffect(() => {
    if (stored === undefined) return;
    for (const one of left.slice(0, 3)) prefetchCrop(queries, stored.document_id, one);
  }, [queries, stored, left]);

  const set = useCallback((extractionId: string, path: string, state: 'pending' | 'saved' | 'skipped' | undefined) => {
    setDecided((before) => {
      const paths = new Map(before.get(extractionId));
      if (state !== 'saved') paths.delete(path); // set again, it is the last one
      if (state !== undefined) paths.set(path, state);
      return new Map(before).set(extractionId, paths);
    });
    if (state === undefined) setOver((before) => without(before, extractionId));
  }, []);
  const mark = useCallback(
    (extractionId: string, path: string, is: boolean) => set(extractionId, path, is ? 'pending' : undefined),
    [set],
  );
  const seen = useCallback((extractionId: string) => queries.ensureQueryData(extractionQuery(extractionId)), [queries]);
  const { write, confirm, decideProposals, settled, ...decisions } = useDecisions({ seen, mark });
  /** Once it is saved, the status that the service returned counts. */
  const decide = (path: string, saved: Promise<boolean>) => void saved.then((is) => is && set(id, path, 'saved'));

  return {
    queue,
    isLoaded: queue.isSuccess && !queue.hasNextPage,
    again: () => {
      setOver(NONE);
      setReturned(NONE);
      setDecided(new Map());
      setSkipped(NONE);
      void Promise.all([queue.refetch(), total.refetch()]);
    },
    documents: queue.hasNextPage ? Math.max(waiting.length, total.data ?? 0) : waiting.length,
    errors: errors ?? [],
    asksToFinish,
    isFinishing: finish.isPending,
    finish: () => stored !== undefined && finish.mutate(stored, { onSuccess: () => leave(id) }),
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
    write: (path: string, value: unknown) => decide(path, write(id, path, value)),
    confirm: (path: string) => decide(path, confirm(id, path)),
    /** For the field, or for a list or object around it. */
    decideProposal: (path: string, accepted: boolean) => {
      const proposal = proposalOf(stored?.proposals ?? [], path);
      if (proposal !== undefined) decide(proposal.path, decideProposals(id, proposal.path, [proposal], accepted));
    },
    skip: (path: string) => {
      setSkipped((before) => new Set(before).add(id));
      set(id, path, 'skipped');
    },
  };
}

function without(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const others = new Set(ids);
  others.delete(id);
  return others;
}

type Queries = ReturnType<typeof useQueryClient>;

function prepare(queries: Queries, extraction: Extraction): void {
  const field = fieldsToReview(fieldRows({ extraction }), NOTHING_DECIDED)[0];
  const page = evidenceOf(field)?.page ?? 1;
  void queries.prefetchQuery(pageImageQuery(extraction.document_id, page));
  void queries.prefetchQuery(pageQuery(extraction.document_id, page));
  if (field !== undefined) prefetchCrop(queries, extraction.document_id, field);
}

function prefetchCrop(queries: Queries, documentId: string, field: FieldRow): void {
  const evidence = evidenceOf(field);
  const box = evidence?.boxes?.[0];
  if (evidence?.page != null && box !== undefined)
    void queries.prefetchQuery(cropQuery(documentId, evidence.page, box));
}

export function evidenceOf(field: FieldRow | undefined): Evidence | undefined {
  return field?.kind === 'leaf' ? field.evidence : undefined;
}
