/** A run while it is at work and after: what it does, step by step, what it costs, and a way to end it. */

import { useEffect, useRef, useState } from 'react';
import { Button } from '../shared/Button';
import { Sign } from '../shared/Sign';
import { ApprovalCard } from '../approvals/ApprovalCard';
import { RunCost } from './RunCost';
import { RunDraft } from './RunDraft';
import styles from './RunPanel.module.css';
import { isUnderWay, type RunState } from './runReducer';
import { RunStep } from './RunStep';
import { runSentence } from './runWords';
import { useCancel } from './useCancel';

interface Props {
  runId: string;
  state: RunState;
  canWrite: boolean;
  /** A call was decided, or the run was cancelled: its events go on. */
  onGoesOn: () => void;
}

export function RunPanel({ runId, state, canWrite, onGoesOn }: Props) {
  const [open, setOpen] = useState(false);
  const steps = useRef<HTMLDivElement>(null);
  const cancel = useCancel(runId, onGoesOn);
  const goesOn = isUnderWay(state);
  useEffect(() => {
    // To the newest, unless somebody reads further up.
    const element = steps.current;
    if (element !== null && element.scrollHeight - element.scrollTop - element.clientHeight < 120) element.scrollTop = element.scrollHeight;
  }, [state.steps, state.draft, open]);

  return (
    <section className={styles.panel} aria-label="Run" data-phase={state.phase}>
      <div className={styles.line}>
        <button type="button" className={styles.toggle} aria-expanded={open} onClick={() => setOpen(!open)}>
          <Sign name="down" size={12} />
          {goesOn && <span className={styles.pulse} />}
          <span className="cut" role="status">
            {runSentence(state)}
          </span>
        </button>
        <RunCost runId={runId} state={state} />
        {canWrite && (goesOn || state.phase === 'approval') && (
          <Button onClick={() => cancel.mutate()} disabled={cancel.isPending}>
            <Sign name="stop" size={12} /> Cancel
          </Button>
        )}
      </div>
      {state.approval !== null && <ApprovalCard runId={state.approval.runId} call={state.approval.call} onDecided={onGoesOn} />}
      {open && (
        <div className={styles.steps} ref={steps} tabIndex={0} role="log" aria-label="Steps">
          {state.steps.map((step) => (
            <RunStep key={step.key} step={step} />
          ))}
          {state.draft !== null && <RunDraft draft={state.draft} />}
          {state.steps.length === 0 && state.draft === null && <p className="soft">Nothing yet.</p>}
        </div>
      )}
    </section>
  );
}
