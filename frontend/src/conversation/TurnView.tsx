/** One message and its answer: the run's steps and approvals while it works, then the answer. */

import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Turn } from '../api/types';
import { ApprovalCard } from '../approvals/ApprovalCard';
import { isRunning, type RunState } from '../run/runReducer';
import { RunCost } from '../run/RunCost';
import { RunDraft } from '../run/RunDraft';
import { Replay } from '../run/Replay';
import { RunStep } from '../run/RunStep';
import { runStatusText } from '../run/runStatusText';
import { useCancel } from '../run/useCancel';
import { useRun } from '../run/useRun';
import { LoaderCircle, X } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { codeText } from '../shared/codeText';
import { t } from '../shared/i18n';
import { Markdown } from '../shared/Markdown';
import { Notice } from '../components/ui/Notice';
import { AnswerView } from './AnswerView';
import { locationOf, type SourceLocation } from './sourceLocation';
import { refresh } from '../api/queryKeys';

const ENDED = ['completed', 'failed', 'cancelled'];

interface Props {
  turn: Turn;
  /** The message is the title of its answer. */
  isTitle: boolean;
  /** Show a source beside the conversation. */
  onShow?: ((place: SourceLocation) => void) | undefined;
  onEnded: () => void;
}

export function TurnView({ turn, isTitle, onShow, onEnded }: Props) {
  const hasEnded = ENDED.includes(turn.status);
  return (
    <article className="mx-auto mb-8 grid max-w-[46rem] grid-cols-[minmax(0,1fr)] gap-3">
      <p
        className={cn(
          'wrap-anywhere whitespace-pre-wrap',
          isTitle ? 'pt-2 text-2xl font-semibold' : 'max-w-[85%] justify-self-end rounded-lg bg-accent px-3 py-2',
        )}>
        {turn.message}
      </p>
      {!hasEnded && <Live runId={turn.run_id} onShow={onShow} onEnded={onEnded} />}
      {hasEnded && turn.earlier_texts.map((text, index) => <Markdown key={index} text={text} />)}
      {hasEnded && turn.error !== null && (
        <Notice kind="bad">{codeText('runErrors', turn.error_code, turn.error)}</Notice>
      )}
      {hasEnded && turn.result !== null && <AnswerView answer={turn.result} onShow={onShow} />}
      {hasEnded && turn.result === null && turn.answer !== null && <Markdown text={turn.answer} />}
      {hasEnded && (
        <div className="text-xs text-muted-foreground">
          <Replay runId={turn.run_id} hasTexts={false} />
        </div>
      )}
    </article>
  );
}

function Live({ runId, onShow, onEnded }: { runId: string } & Omit<Props, 'turn' | 'isTitle'>) {
  const { state, resume } = useRun(runId);
  useRefreshOnRun(state);
  const cancel = useCancel(runId, resume);
  const running = isRunning(state);
  const { opened, phase } = state;
  useEffect(() => {
    if (opened !== null && running) onShow?.(locationOf(opened.location));
    // Only when the agent opens a location, not on other changes.
  }, [opened?.times]);
  useEffect(() => {
    if (phase === 'complete' || phase === 'failed') onEnded();
  }, [phase]);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <div className="flex min-h-7 min-w-0 items-center gap-2">
        {running && <LoaderCircle size={15} className="shrink-0 animate-spin text-primary" aria-hidden="true" />}
        <span className="min-w-0 flex-1 truncate" role="status">
          {runStatusText(state)}
        </span>
        <RunCost runId={runId} state={state} />
        {(running || state.approval !== null) && (
          <Button icon={X} onClick={() => cancel.mutate()} disabled={cancel.isPending}>
            {t('common.cancel')}
          </Button>
        )}
      </div>
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
      {state.approval !== null && (
        <ApprovalCard runId={state.approval.runId} call={state.approval.call} onDecided={resume} />
      )}
      {state.draft !== null &&
        (state.draft.kind === 'text' ? <Markdown text={state.draft.text} /> : <RunDraft draft={state.draft} />)}
    </div>
  );
}

/** Load again what a run has changed. */
function useRefreshOnRun({ phase, extractionId, version, steps }: RunState): void {
  const queries = useQueryClient();
  const started = steps.reduce((sum, step) => sum + (step.kind === 'tool' ? (step.children?.length ?? 0) : 0), 0);
  useEffect(() => {
    if (started > 0) void refresh(queries, 'runs');
  }, [queries, started]);
  useEffect(() => {
    if (extractionId === null) return;
    void refresh(queries, ['extraction', extractionId]);
    void refresh(queries, 'extractions');
  }, [queries, extractionId, version]);
  // A call's effects are stored once the next one waits.
  useEffect(() => {
    if (!['approval', 'complete', 'failed'].includes(phase)) return;
    void refresh(
      queries,
      'document',
      'documents',
      'extractions',
      'prompts',
      'runs',
      'schemas',
      'suggestions',
      'tags',
      'thread state',
    );
    if (extractionId !== null) void refresh(queries, ['extraction', extractionId]);
  }, [queries, phase, extractionId]);
}
