/** A run: its status, steps, cost and approvals, and a button to cancel it. */

import { useEffect, useRef, useState } from 'react';
import { ChevronDown, Square } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { ApprovalCard } from './ApprovalCard';
import { RunCost } from '../run/RunCost';
import { RunDraft } from '../run/RunDraft';
import styles from '../run/RunPanel.module.css';
import { isRunning, type RunState } from '../run/runReducer';
import { RunSteps } from '../run/RunSteps';
import { runStatusText } from '../run/runStatusText';
import { useCancel } from '../run/useCancel';

interface Props {
  runId: string;
  state: RunState;
  canWrite: boolean;
  /** Follow the run again, after a decision or a cancellation. */
  onResume: () => void;
  /** Of values that wait for approval: the path of the one whose box is shown. */
  chosen?: string | undefined;
  onChoose?: (path: string) => void;
}

export function RunPanel({ runId, state, canWrite, onResume, chosen, onChoose }: Props) {
  const [open, setOpen] = useState(false);
  const steps = useRef<HTMLDivElement>(null);
  const cancel = useCancel(runId, onResume);
  const running = isRunning(state);
  useEffect(() => {
    // Keep the newest step visible, unless the person has scrolled up.
    const element = steps.current;
    if (element !== null && element.scrollHeight - element.scrollTop - element.clientHeight < 120)
      element.scrollTop = element.scrollHeight;
  }, [state.steps, state.draft, open]);

  return (
    <section className={styles.panel} aria-label={t('runs.title')} data-phase={state.phase}>
      <div className={styles.line}>
        <button type="button" className={styles.toggle} aria-expanded={open} onClick={() => setOpen(!open)}>
          <ChevronDown size={12} aria-hidden="true" />
          {running && <span className={styles.pulse} />}
          <span className="truncate" role="status">
            {runStatusText(state)}
          </span>
        </button>
        <RunCost runId={runId} state={state} />
        {canWrite && (running || state.phase === 'approval') && (
          <Button onClick={() => cancel.mutate()} disabled={cancel.isPending}>
            <Square size={12} aria-hidden="true" /> {t('common.cancel')}
          </Button>
        )}
      </div>
      {state.approval !== null && (
        <ApprovalCard
          runId={state.approval.runId}
          call={state.approval.call}
          onDecided={onResume}
          chosen={chosen}
          onChoose={onChoose}
        />
      )}
      {open && (
        <div className={styles.steps} ref={steps} tabIndex={0} role="log" aria-label={t('runs.steps')}>
          <RunSteps state={state} onRetry={onResume} />
          {state.draft !== null && <RunDraft draft={state.draft} />}
        </div>
      )}
    </section>
  );
}
