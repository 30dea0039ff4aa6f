/** A call that would write values: doubtful and absent ones first, each with its crop and old → new. Each value can be left
 * out or corrected. The call can be approved once all were in view. */

import { CircleCheck, CircleHelp, Pencil, Undo2, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import type { Box } from '../api/types';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Input } from '../components/ui/Input';
import { LoadingRows } from '../components/ui/Loading';
import { editedText, parseEdited } from '../fields/fieldValue';
import { valueAt } from '../fields/paths';
import { Crop } from '../viewer/Crop';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { changeLabel, changeValue } from './changeText';
import { ApproveRestMenu, DecisionProblem, RejectForm } from './DecisionParts';
import { editedInput, inputPathOf, withoutValues } from './editedInput';
import type { PendingCall } from './pendingCall';
import { doubtText, type ProposedValue, useProposedValues } from './proposedValues';
import { useDecideCall } from './useDecideCall';

const APPROVE = { id: 'approval.approve', keys: 'a' } as const;
const REJECT = { id: 'approval.reject', keys: 'r' } as const;

interface Props {
  runId: string;
  call: PendingCall;
  onDecided: () => void;
  /** The path of the value whose box is shown. */
  chosen?: string | undefined;
  onChoose?: ((path: string) => void) | undefined;
  /** Above the values. */
  children?: React.ReactNode;
}

export function ValuesToApprove({ runId, call, onDecided, chosen, onChoose, children }: Props) {
  const { values, isLoading } = useProposedValues(runId, call);
  const { documentId, refusal, isOff, error, decide } = useDecideCall(runId, call.call_id, onDecided);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(new Map());
  const [isRejecting, setRejecting] = useState(false);
  const doubtful = values.filter((one) => one.isDoubtful).length;
  const { seen, observe } = useSeen(values.length > 0 && !isLoading);
  const isAllSeen = values.every((one) => seen.has(one.path));
  const count = values.length - left.size;

  const proposed = (path: string) => valueAt(call.input, inputPathOf(call.input, path) ?? []);
  const edits = [...texts].filter(([path, text]) => !left.has(path) && text !== editedText(proposed(path)));
  const input = () => {
    const places = edits.map(([path, text]) => ({
      place: inputPathOf(call.input, path)!,
      value: parseEdited(text, proposed(path)),
    }));
    return withoutValues(editedInput(call.input, places), left);
  };
  const approve = (rest?: 'tool' | 'all') =>
    decide({
      approved: true,
      ...(left.size + edits.length > 0 && { input: input() }),
      ...(rest !== undefined && { approve_rest: rest }),
    });
  const canApprove = !isOff && isAllSeen && (count > 0 || values.length === 0);
  useShortcut(APPROVE, () => approve(), canApprove);
  useShortcut(REJECT, () => setRejecting(true), !isOff);

  return (
    <section className="flex min-h-0 flex-1 flex-col" aria-label={t('approvals.card')}>
      <div className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} role="group" aria-label={t('approvals.values')}>
        {children}
        {isLoading && <LoadingRows height={48} lines={Math.min(values.length, 12)} />}
        <ul>
          {(isLoading ? [] : values).map((one, index) => {
            const isEditable = one.removed !== true && inputPathOf(call.input, one.path) !== null && !isOff;
            return (
              <li key={one.path} ref={observe} data-path={one.path}>
                {index === 0 && doubtful > 0 && (
                  <h3 className="flex items-center gap-2 bg-need-bg px-4 py-1.5 text-xs font-medium text-need">
                    <CircleHelp size={13} aria-hidden="true" /> {t('inbox.lookAt', { count: doubtful })}
                  </h3>
                )}
                {index === doubtful && (
                  <h3 className="bg-muted px-4 py-1.5 text-xs font-normal text-muted-foreground">
                    {t('inbox.clear', { count: values.length - doubtful })}
                  </h3>
                )}
                <ValueRow
                  tool={call.tool}
                  value={one}
                  documentId={documentId}
                  isSelected={one.path === chosen}
                  onSelect={() => onChoose?.(one.path)}
                  text={texts.get(one.path)}
                  onEdit={
                    isEditable
                      ? (text = editedText(proposed(one.path))) => setTexts(new Map(texts).set(one.path, text))
                      : undefined
                  }
                  isLeft={left.has(one.path)}
                  onLeave={
                    isEditable && call.tool === 'extract_fields'
                      ? () => setLeft(left.has(one.path) ? without(left, one.path) : new Set([...left, one.path]))
                      : undefined
                  }
                />
              </li>
            );
          })}
        </ul>
        {(error !== null || refusal !== null) && (
          <div className="grid gap-2 p-4">
            <DecisionProblem error={error} refusal={refusal} />
          </div>
        )}
      </div>
      <div className="sticky bottom-0 flex min-h-14 shrink-0 flex-wrap items-center gap-2 border-t border-border bg-background px-4 py-2 max-sm:[&_button]:min-h-11">
        {isRejecting ? (
          <RejectForm disabled={isOff} onReject={decide} onClose={() => setRejecting(false)} />
        ) : (
          <>
            <p
              className="flex flex-1 items-center gap-1.5 text-xs whitespace-nowrap text-muted-foreground"
              role="status">
              {isAllSeen && <CircleCheck size={14} className="shrink-0 text-ok" aria-hidden="true" />}
              {isAllSeen
                ? t('inbox.allSeen', { count: values.length })
                : t('inbox.seen', { count: seen.size, all: values.length })}
            </p>
            <ApproveRestMenu tool={call.tool} disabled={!canApprove} onApprove={approve} />
            <Button keys="R" disabled={isOff} onClick={() => setRejecting(true)}>
              {t('common.reject')}
            </Button>
            <Button kind="main" keys="A" disabled={!canApprove} onClick={() => approve()}>
              {t(edits.length > 0 ? 'inbox.approveEdited' : 'inbox.approve', { count })}
            </Button>
          </>
        )}
      </div>
    </section>
  );
}

interface RowProps {
  tool: string;
  value: ProposedValue;
  documentId: string | null;
  isSelected: boolean;
  onSelect: () => void;
  /** The corrected value. */
  text: string | undefined;
  /** undefined: it cannot be corrected. */
  onEdit: ((text?: string) => void) | undefined;
  isLeft: boolean;
  /** undefined: it cannot be left out. */
  onLeave: (() => void) | undefined;
}

function ValueRow({ tool, value, documentId, isSelected, onSelect, text, onEdit, isLeft, onLeave }: RowProps) {
  const label = changeLabel(tool, value.path);
  const { evidence } = value;
  const box = evidence?.boxes[0] as Box | undefined;
  return (
    <div
      className={cn(
        'grid min-h-12 grid-cols-[minmax(0,6.5rem)_minmax(0,8.5rem)_minmax(0,1fr)_auto] items-center gap-x-3 border-b border-l-2 border-line border-l-transparent px-4 py-1.5 @max-md:grid-cols-[minmax(0,9rem)_minmax(0,1fr)_auto] @max-md:gap-y-1',
        isSelected ? 'border-l-primary bg-accent' : 'hover:bg-hover',
      )}
      onClick={onSelect}>
      <button
        type="button"
        className="line-clamp-2 text-left wrap-anywhere @max-md:col-span-2 @max-md:text-muted-foreground"
        aria-pressed={isSelected}>
        {label}
      </button>
      {documentId !== null && evidence?.page != null && box !== undefined ? (
        <Crop documentId={documentId} page={evidence.page} box={box} width={320} className="@max-md:row-start-2" />
      ) : (
        <span className="rounded-md border border-dashed border-border px-2 py-1 text-center text-xs text-muted-foreground @max-md:row-start-2">
          {t(evidence?.state === 'blank' ? 'fields.statuses.blank' : 'inbox.noCrop')}
        </span>
      )}
      <div className="min-w-0 @max-md:col-span-2">
        <p className={cn('wrap-anywhere', isLeft && 'line-through')}>
          {value.isChange && (
            <>
              <del className="text-muted-foreground">{changeValue(tool, value.path, value.old)}</del>
              <span aria-label={t('approvals.to')}> → </span>
            </>
          )}
          {text !== undefined ? (
            <Input
              autoFocus
              aria-label={t('approvals.newValue', { field: label })}
              value={text}
              onChange={(event) => onEdit?.(event.target.value)}
            />
          ) : value.removed === true ? (
            t('approvals.removed')
          ) : (
            changeValue(tool, value.path, value.new, evidence?.quote)
          )}
        </p>
      </div>
      {value.isDoubtful && (
        <p className="col-span-2 col-start-3 row-start-2 text-xs text-need @max-md:col-span-3 @max-md:col-start-1 @max-md:row-start-3">
          {doubtText(value)}
        </p>
      )}
      <div className="-mr-2 flex justify-end @max-md:col-start-3 @max-md:row-start-1">
        {onEdit !== undefined && text === undefined && !isLeft && (
          <Button
            kind="quiet"
            icon={Pencil}
            label={t('approvals.editValue', { field: label })}
            onClick={() => onEdit()}
          />
        )}
        {onLeave !== undefined && (
          <Button
            kind="quiet"
            icon={isLeft ? Undo2 : X}
            aria-pressed={isLeft}
            label={t(isLeft ? 'inbox.include' : 'inbox.leaveOut', { field: label })}
            onClick={onLeave}
          />
        )}
      </div>
    </div>
  );
}

function without(paths: ReadonlySet<string>, path: string): ReadonlySet<string> {
  return new Set([...paths].filter((one) => one !== path));
}

/** Which rows were in view, with their excerpts. */
function useSeen(active: boolean): { seen: ReadonlySet<string>; observe: (row: HTMLElement | null) => void } {
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const rows = useRef(new Set<HTMLElement>());
  useEffect(() => {
    if (!active) return undefined;
    const inView = new Set<HTMLElement>();
    const check = () => {
      const shown = [...inView].filter((row) => row.querySelector('[aria-busy=true]') === null);
      for (const row of shown) inView.delete(row);
      if (shown.length > 0) setSeen((before) => new Set([...before, ...shown.map((row) => row.dataset.path!)]));
    };
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries)
          inView[isIntersecting ? 'add' : 'delete'](target as HTMLElement);
        check();
      },
      { threshold: 0.6 },
    );
    const loads = new MutationObserver(check);
    for (const row of rows.current) {
      observer.observe(row);
      loads.observe(row, { attributeFilter: ['aria-busy'], childList: true, subtree: true });
    }
    return () => {
      observer.disconnect();
      loads.disconnect();
    };
  }, [active]);
  const observe = useRef((row: HTMLElement | null) => {
    if (row !== null) rows.current.add(row);
  });
  return { seen, observe: observe.current };
}
