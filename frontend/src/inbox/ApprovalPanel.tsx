/** A call that waits for approval: all its values, doubtful and absent ones first, each with its crop and old → new. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Check, CircleHelp, Undo2, X } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { decideCall } from '../api/runs';
import type { Box, Evidence, Run } from '../api/types';
import { ApprovalCard } from '../approvals/ApprovalCard';
import { proposedFieldsQuery, waitingRunQuery } from '../approvals/approvalQueries';
import { changeLabel, changeValue } from '../approvals/changeText';
import { inputPathOf } from '../approvals/editedInput';
import type { PendingCall, PendingChange, ProposedEvidence } from '../approvals/pendingCall';
import { Avatar } from '../components/ui/Avatar';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Input } from '../components/ui/Input';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import type { Mark } from '../document/fields/fieldTree';
import { valueAt } from '../document/fields/paths';
import { Crop } from '../review/Crop';
import { usePersonName } from '../session/people';
import { formatAge } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { isFieldTool } from './inboxText';
import { PageAndPanel } from './PageAndPanel';

const APPROVE = { id: 'approval.approve', keys: 'a' } as const;
const REJECT = { id: 'approval.reject', keys: 'r' } as const;

interface Props {
  runId: string;
  documentId: string | null;
  /** Who started the run. */
  createdBy: string | null;
  onDecided: () => void;
}

export function ApprovalPanel({ runId, documentId, createdBy, onDecided }: Props) {
  const run = useQuery(waitingRunQuery(runId));
  const call = run.data?.waits_for;
  if (run.isError) return <ErrorNotice error={run.error} />;
  if (run.data === undefined || call == null) return <Loading />;
  return isFieldTool(call.tool) ? (
    <Values run={run.data} call={call} documentId={documentId} createdBy={createdBy} onDecided={onDecided} />
  ) : (
    <PageAndPanel documentId={documentId} isWide>
      <div className="min-h-0 flex-1 overflow-y-auto p-4">
        <Who run={run.data} createdBy={createdBy} />
        <ApprovalCard runId={runId} call={call} onDecided={onDecided} />
      </div>
    </PageAndPanel>
  );
}

function Who({ run, createdBy, count }: { run: Run; createdBy: string | null; count?: number }) {
  const personName = usePersonName();
  const name = createdBy === null ? '' : personName(createdBy);
  return (
    <div className="flex items-center gap-3 border-b border-border px-4 py-3">
      {createdBy !== null && <Avatar id={createdBy} name={name} size={28} />}
      <p className="min-w-0 flex-1">
        {count === undefined ? t('inbox.asks', { person: name }) : t('inbox.asksToWrite', { person: name, count })}{' '}
        <span className="text-muted-foreground">{formatAge(run.created_at)}</span>
      </p>
    </div>
  );
}

interface Value extends PendingChange {
  evidence: Evidence | undefined;
  isDoubtful: boolean;
}

function Values({
  run,
  call,
  documentId,
  createdBy,
  onDecided,
}: Omit<Props, 'runId'> & { run: Run; call: PendingCall }) {
  const queries = useQueryClient();
  const proposed = useQuery(proposedFieldsQuery(run.id, call.call_id));
  const [crossed, setCrossed] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<string | null>(null);
  const [reason, setReason] = useState<string | null>(null);
  const values = useMemo(() => {
    const evidence = (proposed.data?.evidence ?? {}) as ProposedEvidence;
    const scores = proposed.data?.confidence_scores ?? {};
    const all = (call.changes ?? []).map((change): Value => {
      const found = evidence[change.path];
      const isDoubtful =
        change.removed === true ||
        found?.state === 'not_found' ||
        found?.reason != null ||
        (scores[change.path] ?? 1) < 0.5 ||
        (change.added !== true && change.old !== undefined && change.old !== null);
      return { ...change, evidence: found, isDoubtful };
    });
    return [...all.filter((one) => one.isDoubtful), ...all.filter((one) => !one.isDoubtful)];
  }, [call, proposed.data]);
  const doubtful = values.filter((one) => one.isDoubtful).length;
  const selected = values.find((one) => one.path === chosen) ?? values[0];
  const { seen, observe } = useSeen(values.length > 0 && !proposed.isLoading);
  const isAllSeen = values.every((one) => seen.has(one.path));
  const count = values.length - crossed.size;

  const decide = useMutation({
    mutationFn: (decision: Parameters<typeof decideCall>[2]) => decideCall(run.id, call.call_id, decision),
    onSuccess: async () => {
      onDecided();
      await queries.invalidateQueries({ queryKey: ['runs'] });
    },
  });
  const refusal = run.decision_refusal ?? null;
  const isOff = decide.isPending || refusal !== null;
  const approve = () =>
    decide.mutate({ approved: true, ...(crossed.size > 0 && { input: withoutValues(call.input, crossed) }) });
  const reject = () =>
    decide.mutate({ approved: false, ...(reason !== null && reason.trim() !== '' && { reason: reason.trim() }) });
  useShortcut(APPROVE, approve, !isOff && isAllSeen && count > 0);
  useShortcut(REJECT, () => setReason(''), !isOff);

  const marks = useMemo(() => marksOf(values), [values]);
  const box = selected?.evidence?.boxes[0] as Box | undefined;
  return (
    <PageAndPanel
      documentId={documentId}
      isWide
      marks={marks}
      chosen={selected?.path ?? null}
      place={{ page: selected?.evidence?.page ?? 1, box, at: box === undefined ? 0 : values.indexOf(selected!) + 1 }}
      onChoose={setChosen}>
      <div className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} role="region" aria-label={t('approvals.card')}>
        <Who run={run} createdBy={createdBy} count={values.length} />
        <ul>
          {values.map((one, index) => (
            <li key={one.path} ref={observe} data-path={one.path}>
              {index === 0 && doubtful > 0 && (
                <h2 className="flex items-center gap-2 bg-need-bg px-4 py-1.5 text-xs font-medium text-need">
                  <CircleHelp size={13} aria-hidden="true" /> {t('inbox.lookAt', { count: doubtful })}
                </h2>
              )}
              {index === doubtful && (
                <h2 className="bg-muted px-4 py-1.5 text-xs font-normal text-muted-foreground">
                  {t('inbox.clear', { count: values.length - doubtful })}
                </h2>
              )}
              <ValueRow
                call={call}
                value={one}
                documentId={documentId}
                isSelected={one === selected}
                isCrossed={crossed.has(one.path)}
                canCross={call.tool === 'extract_fields' && inputPathOf(call.input, one.path) !== null && !isOff}
                onSelect={() => setChosen(one.path)}
                onCross={() =>
                  setCrossed((before) => {
                    const after = new Set(before);
                    if (!after.delete(one.path)) after.add(one.path);
                    return after;
                  })
                }
              />
            </li>
          ))}
        </ul>
        {decide.isError && <ErrorNotice error={decide.error} />}
        {refusal !== null && <Notice kind="unsure">{t(`approvals.refusals.${refusal}`)}</Notice>}
      </div>
      <div className="flex min-h-14 shrink-0 flex-wrap items-center gap-2 border-t border-border px-4 py-2">
        {reason === null ? (
          <>
            <p className="flex flex-1 items-center gap-1.5 text-xs text-muted-foreground" role="status">
              {isAllSeen && <Check size={14} className="text-ok" aria-hidden="true" />}
              {isAllSeen
                ? t('inbox.allSeen', { count: values.length })
                : t('inbox.seen', { count: seen.size, all: values.length })}
            </p>
            <Button keys="R" disabled={isOff} onClick={() => setReason('')}>
              {t('common.reject')}
            </Button>
            <Button kind="main" keys="A" disabled={isOff || !isAllSeen || count === 0} onClick={approve}>
              {t('inbox.approve', { count })}
            </Button>
          </>
        ) : (
          <form
            className="flex flex-1 gap-2"
            onSubmit={(event) => {
              event.preventDefault();
              reject();
            }}>
            <Input
              autoFocus
              aria-label={t('approvals.reason')}
              placeholder={t('approvals.reasonHint')}
              maxLength={2000}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
              onKeyDown={(event) => event.key === 'Escape' && setReason(null)}
            />
            <Button kind="main" size="md" type="submit" disabled={isOff}>
              {t('common.reject')}
            </Button>
          </form>
        )}
      </div>
    </PageAndPanel>
  );
}

interface RowProps {
  call: PendingCall;
  value: Value;
  documentId: string | null;
  isSelected: boolean;
  isCrossed: boolean;
  canCross: boolean;
  onSelect: () => void;
  onCross: () => void;
}

function ValueRow({ call, value, documentId, isSelected, isCrossed, canCross, onSelect, onCross }: RowProps) {
  const label = changeLabel(call.tool, value.path);
  const { evidence } = value;
  const box = evidence?.boxes[0] as Box | undefined;
  const isChanged = value.added !== true && value.old !== undefined && value.old !== null;
  return (
    <div
      className={cn(
        'grid min-h-12 grid-cols-[minmax(0,5rem)_minmax(0,8rem)_minmax(0,1fr)_auto] items-center gap-3 border-b border-l-2 border-line border-l-transparent px-4 py-1.5',
        isSelected && 'border-l-primary bg-accent',
      )}>
      <button type="button" className="truncate text-left" aria-pressed={isSelected} onClick={onSelect}>
        {label}
      </button>
      {documentId !== null && evidence?.page != null && box !== undefined ? (
        <div className="[&_figure]:min-h-0!">
          <Crop documentId={documentId} page={evidence.page} box={box} width={320} />
        </div>
      ) : (
        <span className="rounded-md border border-dashed border-border px-2 py-1 text-center text-xs text-muted-foreground">
          {t('inbox.noCrop')}
        </span>
      )}
      <div className="min-w-0">
        <p className={cn('wrap-anywhere', isCrossed && 'line-through')}>
          {isChanged && (
            <>
              <del className="text-muted-foreground">{changeValue(call.tool, value.path, value.old)}</del>
              <span aria-label={t('approvals.to')}> → </span>
            </>
          )}
          {value.removed === true
            ? t('approvals.removed')
            : changeValue(call.tool, value.path, value.new, evidence?.quote)}
        </p>
        {value.isDoubtful && <p className="text-xs text-need">{doubtText(value, isChanged)}</p>}
      </div>
      {canCross && (
        <Button
          kind="quiet"
          icon={isCrossed ? Undo2 : X}
          aria-pressed={isCrossed}
          label={t(isCrossed ? 'inbox.include' : 'inbox.leaveOut', { field: label })}
          onClick={onCross}
        />
      )}
    </div>
  );
}

function doubtText({ evidence, removed }: Value, isChanged: boolean): string {
  if (removed === true) return t('inbox.removes');
  if (evidence?.reason != null) return t(`fields.why.${evidence.reason}`);
  if (evidence?.state === 'not_found') return t('fields.why.not_found');
  return t(isChanged ? 'inbox.replaces' : 'fields.why.low_confidence');
}

function marksOf(values: readonly Value[]): ReadonlyMap<number, readonly Mark[]> {
  const all = new Map<number, Mark[]>();
  for (const { path, evidence, isDoubtful } of values) {
    if (evidence?.page == null) continue;
    const list = all.get(evidence.page) ?? [];
    for (const box of evidence.boxes) list.push({ path, box: box as Box, status: isDoubtful ? 'unclear' : 'found' });
    all.set(evidence.page, list);
  }
  return all;
}

/** Which rows were in view. */
function useSeen(active: boolean): { seen: ReadonlySet<string>; observe: (row: HTMLElement | null) => void } {
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const rows = useRef(new Set<HTMLElement>());
  useEffect(() => {
    if (!active) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        const shown = entries
          .filter((one) => one.isIntersecting)
          .map((one) => (one.target as HTMLElement).dataset.path!);
        if (shown.length > 0) setSeen((before) => new Set([...before, ...shown]));
      },
      { threshold: 0.6 },
    );
    for (const row of rows.current) observer.observe(row);
    return () => observer.disconnect();
  }, [active]);
  const observe = useRef((row: HTMLElement | null) => {
    if (row !== null) rows.current.add(row);
  });
  return { seen, observe: observe.current };
}

/** Return a copy of the arguments without some values. */
function withoutValues(input: Readonly<Record<string, unknown>>, left: ReadonlySet<string>): Record<string, unknown> {
  const copy = structuredClone(input) as Record<string, unknown>;
  for (const path of left) {
    const place = inputPathOf(copy, path);
    const parent = place === null ? undefined : valueAt(copy, place.slice(0, -1));
    const last = place?.at(-1);
    if (typeof parent === 'object' && parent !== null && !Array.isArray(parent) && last !== undefined)
      delete (parent as Record<string | number, unknown>)[last];
    // What the agent says of the value: its confidence, its quote.
    for (const about of Object.values(copy)) {
      if (typeof about === 'object' && about !== null && about !== copy.fields && Object.hasOwn(about, path))
        delete (about as Record<string, unknown>)[path];
    }
  }
  return copy;
}
