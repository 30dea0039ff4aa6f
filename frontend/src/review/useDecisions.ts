/** Decides values, one after the other, and takes the last decision back: what the review and the sheet both do. */

import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import { dataOf, api } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { storeChanged } from '../document/storeChanged';
import { errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';

/** What can be taken back: a value that was written or confirmed, or is on its way to be. */
interface Decided {
  readonly extractionId: string;
  readonly path: string;
  /** undefined: not written yet. `before`, `after`: the versions, the same where a value was confirmed. `wasLocked`:
   * a person had set it before, too. */
  written?: { before: number; after: number; wasLocked: boolean };
  /** It is being taken back. */
  isGoing: boolean;
}

/** What somebody saw when they decided. */
export type Seen = Pick<Extraction, 'version' | 'locks' | 'proposals'>;

interface Around {
  /** What stands in an extraction as it is shown. */
  seen: (extractionId: string) => Promise<Seen>;
  /** Told at once that a value is decided, and that it is not, where that was refused or taken back. */
  mark: (extractionId: string, path: string, is: boolean) => void;
  /** What stands since. */
  changed?: (now: ChangedExtraction) => void;
}

/** The functions of `around` must stay the same ones. */
export function useDecisions({ seen, mark, changed: notifyChanged }: Around) {
  const queries = useQueryClient();
  const [decided, setDecided] = useState<readonly Decided[]>([]);
  // As it is now: a key may be pressed before it is drawn.
  const latest = useRef(decided);
  const keep = useCallback((change: (before: readonly Decided[]) => readonly Decided[]) => {
    latest.current = change(latest.current);
    setDecided(latest.current);
  }, []);
  const [times, setTimes] = useState<readonly number[]>([]);

  const put = useCallback(
    (changed: ChangedExtraction) => {
      storeChanged(queries, changed);
      notifyChanged?.(changed);
    },
    [queries, notifyChanged],
  );

  /** One after the other: each has the version of the one before. */
  const [chain] = useState<{ last: Promise<unknown>; open: number }>(() => ({ last: Promise.resolve(), open: 0 }));
  const inTurn = useCallback(
    <T,>(act: () => Promise<T>): Promise<T> => {
      chain.open += 1;
      const done = chain.last.then(act, act).finally(() => {
        chain.open -= 1;
      });
      chain.last = done;
      return done;
    },
    [chain],
  );
  useEffect(() => {
    // Shown as done before it is: so the browser asks whoever closes the window meanwhile.
    const ask = (event: BeforeUnloadEvent) => {
      if (chain.open > 0) event.preventDefault();
    };
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [chain]);

  /** Whether it was done. */
  const decide = useCallback(
    (id: string, path: string, ask: (current: Seen) => Promise<unknown>): Promise<boolean> => {
      const one: Decided = { extractionId: id, path, isGoing: false };
      const drop = () => keep((before) => before.filter((other) => other !== one));
      mark(id, path, true); // shown as done at once
      keep((before) => [...before, one]);
      setTimes((before) => [...before, performance.now()]);
      return inTurn(async () => {
        try {
          const current = await seen(id);
          const changed = (await ask(current)) as ChangedExtraction;
          put(changed);
          const wasLocked = current.locks[path] !== undefined;
          if (changed.version === current.version && wasLocked) drop(); // a proposal was rejected: that stays
          else one.written = { before: current.version, after: changed.version, wasLocked };
          return true;
        } catch (error) {
          drop();
          setTimes((before) => before.slice(0, -1));
          mark(id, path, false);
          toast(errorMessage(error), { urgent: true });
          await queries.invalidateQueries({ queryKey: ['extraction', id] });
          return false;
        }
      });
    },
    [inTurn, keep, mark, put, queries, seen],
  );

  const write = useCallback(
    (id: string, path: string, value: unknown) =>
      decide(id, path, async (current) => {
        const header = { 'if-match': `"${current.version}"` };
        const changed = (await dataOf(
          api.PATCH('/api/extractions/{extraction_id}/fields', { params: { path: { extraction_id: id }, header }, body: { path, value } }),
        )) as ChangedExtraction;
        if (!changed.proposals.some((one) => one.path === path)) return changed;
        // What somebody wrote stands: not what an agent proposed there. Where this fails, it is asked about again.
        return answerProposals(id, changed, path, false).catch(() => changed);
      }),
    [decide],
  );

  /** The value stands as it is: not as JavaScript reads it, which keeps no more than some 15 digits. */
  const confirm = useCallback(
    (id: string, path: string) =>
      decide(id, path, (current) => {
        const params = { path: { extraction_id: id }, query: { path }, header: { 'if-match': `"${current.version}"` } };
        return dataOf(api.POST('/api/extractions/{extraction_id}/locks', { params }));
      }),
    [decide],
  );

  const decideProposals = useCallback(
    (id: string, path: string, accepted: boolean) => decide(id, path, (current) => answerProposals(id, current, path, accepted)),
    [decide],
  );

  /** Takes the last decision back, once it is written, and answers which: undefined where there is none. */
  const undo = useCallback((): Pick<Decided, 'extractionId' | 'path'> | undefined => {
    const last = latest.current.findLast((one) => !one.isGoing);
    if (last === undefined) return undefined;
    last.isGoing = true;
    void inTurn(async () => {
      if (last.written === undefined) return; // it was refused
      const { before, after, wasLocked } = last.written;
      const path = { extraction_id: last.extractionId };
      try {
        let version = after;
        let isLocked = true;
        if (before !== after) {
          const header = { 'if-match': `"${after}"` };
          const params = { path, header };
          const back = (await dataOf(api.POST('/api/extractions/{extraction_id}/restore', { params, body: { version: before } }))) as ChangedExtraction;
          put(back);
          version = back.version;
          isLocked = back.locks[last.path] !== undefined; // not where nothing stands any more
        }
        // A lock is no part of a version: what was restored is locked, and what was confirmed still is.
        if (!wasLocked && isLocked) {
          const params = { path, header: { 'if-match': `"${version}"` }, query: { path: last.path } };
          put((await dataOf(api.DELETE('/api/extractions/{extraction_id}/locks', { params }))) as ChangedExtraction);
        }
        // The same stands there under another number: the decision before this one led to it.
        for (const { extractionId, written } of latest.current) {
          if (extractionId === last.extractionId && written?.after === before) written.after = version;
        }
        keep((those) => those.filter((one) => one !== last));
        setTimes((times) => times.slice(0, -1));
        mark(last.extractionId, last.path, false);
      } catch (error) {
        last.isGoing = false;
        toast(errorMessage(error), { urgent: true });
      }
    });
    return last;
  }, [inTurn, keep, mark, put]);

  /** Ends when all that was decided is written or refused. */
  const settled = useCallback(() => chain.last.catch(() => undefined), [chain]);

  return { times, canUndo: decided.length > 0, settled, write, confirm, decideProposals, undo };
}

function answerProposals(id: string, current: Seen, path: string, accepted: boolean) {
  const decisions = current.proposals.filter((one) => one.path === path).map((one) => ({ id: one.id, accepted }));
  return dataOf(
    api.POST('/api/extractions/{extraction_id}/proposals', { params: { path: { extraction_id: id } }, body: { decisions } }),
  );
}
