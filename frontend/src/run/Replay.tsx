/** The steps of a run, loaded when opened. */

import { useState } from 'react';
import { t } from '../shared/i18n';
import { RunStep } from './RunStep';
import { useRun } from './useRun';

export function Replay({ runId, label = t('runs.showSteps') }: { runId: string; label?: string }) {
  const [open, setOpen] = useState(false);
  const { state } = useRun(open ? runId : null);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {state.error?.code === 'not_followed' && <p className="muted">{state.error.message}</p>}
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
    </details>
  );
}
