/** Rows whose values wait for approval, each asked for by a run of its own: how many, and a dialog to approve them together. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { decideCall } from '../api/runs';
import type { Run, Stack } from '../api/types';
import { waitingRowsQuery } from '../run/approvalQueries';
import { changeLabel, changeValue } from '../approvals/changeText';
import { displayValue } from '../fields/fieldValue';
import { schemaPath } from '../fields/labels';
import { actOnEach } from '../shared/actOnEach';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { errorMessage, Notice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { firstRowsQuery } from '../records/tableQueries';
import { refresh } from '../api/queryKeys';

export function WaitingRows({ stack }: { stack: Stack }) {
  const { id: stackId } = stack;
  const count = stack.progress.awaiting_approval;
  const [isOpen, setOpen] = useState(false);
  const waiting = useQuery({ ...waitingRowsQuery(stackId), enabled: count > 0 || isOpen });
  const runs = waiting.data ?? [];
  if (count === 0 && !isOpen) return null;
  const refusal = runs[0]?.decision_refusal ?? null;
  return (
    <>
      <Notice>
        <div className="flex flex-wrap items-center gap-3">
          <span>{t('stacks.rowsWait', { count: Math.max(count, runs.length) })}</span>
          {refusal !== null && <span className="muted">{t(`approvals.refusals.${refusal}`)}</span>}
          {runs.length > 0 && (
            <Button kind={refusal === null ? 'main' : 'plain'} onClick={() => setOpen(true)}>
              {t('stacks.lookAtRows')}
            </Button>
          )}
        </div>
      </Notice>
      {isOpen && <WaitingRowsDialog stack={stack} runs={runs} onClose={() => setOpen(false)} />}
    </>
  );
}

function WaitingRowsDialog({ stack, runs, onClose }: { stack: Stack; runs: readonly Run[]; onClose: () => void }) {
  const queries = useQueryClient();
  const rows = useQuery(firstRowsQuery({ table: stack.id, state: 'awaiting_approval' }));
  const names = new Map(rows.data?.map((row) => [row.document_id, visibleText(row.filename)]));
  const nameOf = (run: Run) => names.get(run.document_id ?? '') ?? t('approvals.document');
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [done, setDone] = useState(0);
  const isStopped = useRef(false);
  const decidable = runs.filter((run) => run.decision_refusal === null);
  const refusal = runs[0]?.decision_refusal ?? null;
  const columns = stack.columns.map((one) => schemaPath(one.name));
  const chosen = decidable.filter((run) => !left.has(callKey(run)));
  const approve = useMutation({
    mutationFn: async (chosenRuns: readonly Run[]) => {
      isStopped.current = false;
      const outcome = await actOnEach(
        chosenRuns,
        (run) => decideCall(run.id, run.waits_for!.call_id, { approved: true }),
        setDone,
        () => isStopped.current,
      );
      // Named now: a run that no longer waits leaves the list.
      return { ...outcome, failed: outcome.failed.map(({ item, error }) => `${nameOf(item)}: ${errorMessage(error)}`) };
    },
    onSuccess: ({ done: approved, failed, left: unsent }) => {
      void refresh(queries, 'runs', 'stacks', 'records');
      if (failed.length + unsent.length > 0) return;
      toast(t('stacks.rowsApproved', { count: approved.length }));
      onClose();
    },
  });
  const close = () => {
    if (approve.isPending) isStopped.current = true;
    else onClose();
  };
  const toggle = (run: Run) =>
    setLeft((before) =>
      before.has(callKey(run))
        ? new Set([...before].filter((one) => one !== callKey(run)))
        : new Set([...before, callKey(run)]),
    );
  return (
    <Dialog title={t('stacks.rowsToApprove', { count: runs.length })} open onClose={close} isWide>
      {approve.data !== undefined && <Summary {...approve.data} />}
      {decidable.length > 0 ? (
        <p className="muted">{t('stacks.rowsToApproveHint')}</p>
      ) : (
        refusal !== null && <Notice kind="unsure">{t(`approvals.refusals.${refusal}`)}</Notice>
      )}
      <div
        className="max-h-[45vh] overflow-auto rounded-md border border-border [&_dl]:flex [&_dl]:flex-wrap [&_dl]:gap-x-4 [&_dl>div]:flex [&_dl>div]:gap-1 [&_dt]:text-muted-foreground [&_li]:grid [&_li]:grid-cols-[auto_minmax(0,1fr)] [&_li]:gap-2 [&_li]:border-b [&_li]:border-line [&_li]:px-3 [&_li]:py-2"
        tabIndex={0}
        role="group"
        aria-label={t('stacks.rowsToApprove', { count: runs.length })}>
        <ul>
          {runs.map((run) => (
            <WaitingRow
              key={callKey(run)}
              run={run}
              columns={columns}
              name={nameOf(run)}
              isChosen={chosen.includes(run)}
              onToggle={() => toggle(run)}
            />
          ))}
        </ul>
      </div>
      <div className="flex flex-wrap justify-end gap-2">
        {decidable.length > 1 && (
          <Button
            kind="quiet"
            disabled={approve.isPending}
            onClick={() => setLeft(chosen.length > 0 ? new Set(decidable.map(callKey)) : new Set())}>
            {t(chosen.length > 0 ? 'stacks.chooseNone' : 'stacks.chooseAllRows')}
          </Button>
        )}
        <Button onClick={close}>
          {t(approve.isPending ? 'stacks.stopApproving' : decidable.length > 0 ? 'common.cancel' : 'common.close')}
        </Button>
        {decidable.length > 0 && (
          <Button
            kind="main"
            disabled={chosen.length === 0 || approve.isPending}
            onClick={() => approve.mutate(chosen)}>
            {approve.isPending
              ? t('stacks.approving', { done, count: approve.variables.length })
              : t('stacks.approveRows', { count: chosen.length })}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

/** How many rows were approved, and why the others were not. */
export function Summary({
  done,
  failed,
  left,
}: {
  done: readonly Run[];
  failed: readonly string[];
  left: readonly Run[];
}) {
  return (
    <Notice kind="unsure">
      <p>{t('stacks.approvedOf', { done: done.length, count: done.length + failed.length + left.length })}</p>
      {left.length > 0 && <p>{t('stacks.rowsNotSent', { count: left.length })}</p>}
      {failed.length > 0 && (
        <>
          <p>{t('stacks.rowsFailed', { count: failed.length })}</p>
          <ul className="max-h-32 overflow-auto pl-4 wrap-anywhere">
            {failed.map((one, index) => (
              <li key={index}>{one}</li>
            ))}
          </ul>
        </>
      )}
    </Notice>
  );
}

function WaitingRow({
  run,
  columns,
  name,
  isChosen,
  onToggle,
}: {
  run: Run;
  columns: readonly string[];
  name: string;
  isChosen: boolean;
  onToggle: () => void;
}) {
  const { tool } = run.waits_for!;
  const order = (path: string) => columns.indexOf(schemaPath(path)) + 1 || columns.length + 1;
  const changes = run.waits_for!.changes.toSorted((a, b) => order(a.path) - order(b.path));
  const search = run.extraction_id === null ? {} : { extraction: run.extraction_id };
  return (
    <li>
      <input
        type="checkbox"
        aria-label={t('tables.selectRow', { name })}
        disabled={run.decision_refusal !== null}
        checked={isChosen}
        onChange={onToggle}
      />
      <div>
        <Link to="/documents/$documentId" params={{ documentId: run.document_id ?? '' }} search={search}>
          {name}
        </Link>
        <dl>
          {changes.map((change) => (
            <div key={change.path}>
              <dt>{changeLabel(tool, change.path)}</dt>
              <dd>
                {change.added !== true && <s className="muted">{valueText(tool, change.path, change.old)}</s>}{' '}
                {change.removed === true ? t('approvals.removed') : valueText(tool, change.path, change.new)}
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </li>
  );
}

/** Amounts that are not whole have two decimal places. */
function valueText(tool: string, path: string, value: unknown): string {
  return typeof value === 'number' && !Number.isInteger(value)
    ? displayValue(value, { type: 'number', decimals: 2 })
    : changeValue(tool, path, value);
}

/** A run asks for one call after the other. */
function callKey(run: Run): string {
  return `${run.id} ${run.waiting_call ?? ''}`;
}
