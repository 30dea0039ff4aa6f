/** What a run has done, step by step: asked for when somebody wants to see it. */

import { useState } from 'react';
import { RunStep } from './RunStep';
import { useRun } from './useRun';

export function Replay({ runId, words = 'Show steps' }: { runId: string; words?: string }) {
  const [open, setOpen] = useState(false);
  const { state } = useRun(open ? runId : null);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words}</summary>
      {state.error?.code === 'not_followed' && <p className="muted">{state.error.sentence}</p>}
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
    </details>
  );
}
