/** Saving decisions about values in sequence, with undo: of questions, fields, unmapped text and cells of tables. */

import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { atVersion } from '../api/atVersion';
import { api, ApiError } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { t } from '../shared/i18n';
import { saving, untilSent } from '../shared/unsent';
import { extractionQuery } from './extractionQueries';
import { storeChanged } from './storeChanged';
import { displayValue } from './fieldValue';
import { pathLabel } from './labels';
import { pathSteps, valueAt } from './paths';
import { refresh } from '../api/queryKeys';

/** A decision that can be undone: a value that was written or confirmed, or is being saved. */
interface Decision {
  readonly extractionId: string;
  readonly path: string;
  /** undefined: not saved yet. `before` and `after`: the versions, equal if the value was only confirmed. `wasLocked`: a
   * person had set it before. */
  saved?: { before: number; after: number; wasLocked: boolean };
  /** It is being undone. */
  isUndoing: boolean;
  /** Those of the same batch are undone together. */
  batch: symbol | undefined;
}

/** The part of an extraction that a decision is based on. */
export type Seen = Pick<Extraction, 'version' | 'locks' | 'proposals'>;

const MOST_RETRIES = 5;

/** Someone else has set this value since the person saw the field. */
class ChangedMeanwhile extends Error {
  constructor(readonly now: unknown) {
    super();
  }
}

interface How {
  /** The value that the person saw. If only other fields were changed since, the decision is saved for the new version. */
  was?: unknown;
  /** The value that is written. */
  value?: unknown;
  /** It cannot be undone. */
  isFinal?: boolean;
  /** Decisions of the same batch are undone together. */
  batch?: symbol | undefined;
  /** Called if it cannot be saved, in place of a toast. */
  onError?: ((error: unknown) => void) | undefined;
}

interface Options {
  /** Return the extraction as it is shown. */
  seen: (extractionId: string) => Promise<Seen>;
  /** Called at once when a value is decided (true), and when saving fails or it is undone (false). */
  mark: (extractionId: string, path: string, is: boolean) => void;
  /** Called with the extraction after each change. */
  changed?: (now: ChangedExtraction) => void;
}

/** The option functions must be stable (useCallback). */
export function useDecisions({ seen, mark, changed: notifyChanged }: Options) {
  const queries = useQueryClient();
  const [decided, setDecided] = useState<readonly Decision[]>([]);
  // The current list, also before the next render.
  const latest = useRef(decided);
  const keep = useCallback((change: (before: readonly Decision[]) => readonly Decision[]) => {
    latest.current = change(latest.current);
    setDecided(latest.current);
  }, []);

  const put = useCallback(
    (changed: ChangedExtraction) => {
      storeChanged(queries, changed);
      notifyChanged?.(changed);
    },
    [queries, notifyChanged],
  );

  /** In sequence: each change needs the version that the previous one returned. */
  const [chain] = useState<{ last: Promise<unknown> }>(() => ({ last: Promise.resolve() }));
  const enqueue = useCallback(
    <T>(act: () => Promise<T>): Promise<T> => {
      const before = chain.last;
      const done = saving(() => before.then(act, act));
      chain.last = done;
      return done;
    },
    [chain],
  );

  /** Return whether it was saved. */
  const decide = useCallback(
    (id: string, path: string, ask: (current: Seen) => Promise<unknown>, how: How = {}): Promise<boolean> => {
      const one: Decision = { extractionId: id, path, isUndoing: false, batch: how.batch };
      const drop = () => keep((before) => before.filter((other) => other !== one));
      mark(id, path, true);
      keep((before) => [...before, one]);
      return enqueue(async () => {
        try {
          let current = await seen(id);
          if (how.onError === undefined && 'extracted_fields' in current)
            checkUnchanged(current as Extraction, path, how);
          /** Again at the newest version, as long as only other fields are changed. */
          const send = async (left: number): Promise<unknown> => {
            try {
              return await untilSent(() => ask(current));
            } catch (error) {
              if (left === 0 || how.was === undefined || !isConflict(error)) throw error;
              const stored = await queries.fetchQuery({ ...extractionQuery(id), staleTime: 0 });
              current = stored;
              if (how.onError === undefined) checkUnchanged(stored, path, how);
              else if (!isUnchanged(stored, path, how)) throw error;
              return send(left - 1);
            }
          };
          const changed = (await send(MOST_RETRIES)) as ChangedExtraction;
          put(changed);
          const wasLocked = current.locks[path] !== undefined;
          if (how.isFinal === true || (changed.version === current.version && wasLocked)) drop();
          else one.saved = { before: current.version, after: changed.version, wasLocked };
          return true;
        } catch (error) {
          drop();
          mark(id, path, false);
          if (error instanceof ChangedMeanwhile)
            'value' in how ? offerBoth.current(id, path, how.value, error.now) : toast(t('fields.justUpdated'));
          else if (how.onError !== undefined) how.onError(error);
          else toast(errorMessage(error), { urgent: true });
          await refresh(queries, ['extraction', id]);
          return false;
        }
      });
    },
    [enqueue, keep, mark, put, queries, seen],
  );

  const write = useCallback(
    (id: string, path: string, value: unknown, how?: How) =>
      decide(
        id,
        path,
        async (current) => {
          const body = { path, value };
          const sent = api.patch('/api/extractions/{extraction_id}/fields', {
            ...atVersion(id, current.version),
            body,
          });
          const changed = (await sent) as ChangedExtraction;
          const proposals = changed.proposals.filter((one) => one.path === path);
          if (proposals.length === 0) return changed;
          // The written value wins over a suggestion. If rejecting that fails, it is asked about again.
          return answerProposals(id, proposals, false).catch(() => changed);
        },
        { ...how, value },
      ),
    [decide],
  );
  /** The person's value is not lost: a button saves it. */
  const offerBoth = useRef((id: string, path: string, value: unknown, now: unknown) => {
    const text = (one: unknown) => displayValue(one) || t('fields.nothing');
    const act = () => void write(id, path, value, { was: now });
    const action = { label: t('fields.useInstead', { value: text(value) }), act };
    const field = pathLabel(path);
    toast(t('fields.changedBySomeone', { field, value: text(now) }), { action, seconds: 30 });
  });

  /** Lock the stored value without sending it: a JavaScript number would keep only about 15 digits. */
  const confirm = useCallback(
    (id: string, path: string, how?: How) =>
      decide(
        id,
        path,
        ({ version }) =>
          api.post('/api/extractions/{extraction_id}/locks', { ...atVersion(id, version), query: { path } }),
        how,
      ),
    [decide],
  );

  /** Remove an item of a list; the following items move up. */
  const remove = useCallback(
    (id: string, path: string, how: How) =>
      decide(
        id,
        path,
        ({ version }) =>
          api.delete('/api/extractions/{extraction_id}/fields', { ...atVersion(id, version), query: { path } }),
        how,
      ),
    [decide],
  );

  /** Decide the proposals that the person saw for a path: another one that came since stays open. Rejecting is final. */
  const decideProposals = useCallback(
    (id: string, path: string, proposals: Seen['proposals'], accepted: boolean) =>
      decide(id, path, () => answerProposals(id, proposals, accepted), { isFinal: !accepted }),
    [decide],
  );

  const undoOne = useCallback(
    (last: Decision): void => {
      last.isUndoing = true;
      void enqueue(async () => {
        if (last.saved === undefined) return; // saving failed
        const { before, after, wasLocked } = last.saved;
        const id = last.extractionId;
        try {
          let version = after;
          let isLocked = true;
          if (before !== after) {
            const body = { version: before };
            const sent = api.post('/api/extractions/{extraction_id}/restore', { ...atVersion(id, after), body });
            const back = (await sent) as ChangedExtraction;
            put(back);
            version = back.version;
            isLocked = back.locks[last.path] !== undefined; // false if the restored version has no value here
          }
          // Restoring a version does not remove locks.
          if (!wasLocked && isLocked) {
            const params = { ...atVersion(id, version), query: { path: last.path } };
            put((await api.delete('/api/extractions/{extraction_id}/locks', params)) as ChangedExtraction);
          }
          // The previous decision led to the same values, which now have a newer version.
          for (const { extractionId, saved } of latest.current) {
            if (extractionId === last.extractionId && saved?.after === before) saved.after = version;
          }
          keep((decisions) => decisions.filter((one) => one !== last));
          mark(last.extractionId, last.path, false);
        } catch (error) {
          last.isUndoing = false;
          toast(errorMessage(error), { urgent: true });
        }
      });
    },
    [enqueue, keep, mark, put],
  );

  const undoBatch = useCallback(
    (batch: symbol | undefined): Pick<Decision, 'extractionId' | 'path'> | undefined => {
      const open = latest.current.filter((one) => !one.isUndoing && (batch === undefined || one.batch === batch));
      const last = open.at(-1);
      if (last === undefined) return undefined;
      for (const one of open.toReversed())
        if (one === last || (last.batch !== undefined && one.batch === last.batch)) undoOne(one);
      return last;
    },
    [undoOne],
  );
  /** Undo the last decision once it is saved, with its batch. Return it; undefined if there is none. */
  const undo = useCallback(() => undoBatch(undefined), [undoBatch]);

  /** Resolves when all decisions are saved or have failed. */
  const settled = useCallback(() => chain.last.catch(() => undefined), [chain]);

  /** Let an agent change the value again. */
  const unlock = useCallback(
    (id: string, path: string) =>
      decide(
        id,
        path,
        ({ version }) =>
          api.delete('/api/extractions/{extraction_id}/locks', { ...atVersion(id, version), query: { path } }),
        { isFinal: true },
      ),
    [decide],
  );
  return { canUndo: decided.length > 0, settled, write, confirm, remove, unlock, decideProposals, undo, undoBatch };
}

export type Decisions = ReturnType<typeof useDecisions>;

/** Whether the field has the value that the person saw; or the one that was sent: its response may have been lost. */
function isUnchanged(stored: Extraction, path: string, { was, value }: How): boolean {
  const now = valueNow(stored, path);
  return isSame(now, was) || (value !== undefined && isSame(now, value));
}

function checkUnchanged(stored: Extraction, path: string, how: How): void {
  if (how.was !== undefined && !isUnchanged(stored, path, how)) throw new ChangedMeanwhile(valueNow(stored, path));
}

function valueNow(stored: Extraction, path: string): unknown {
  return valueAt(stored.extracted_fields, pathSteps(path) ?? []) ?? null;
}

function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function answerProposals(id: string, proposals: Seen['proposals'], accepted: boolean) {
  const decisions = proposals.map((one) => ({ id: one.id, accepted }));
  return api.post('/api/extractions/{extraction_id}/proposals', { path: { extraction_id: id }, body: { decisions } });
}
