/** The steps of a run, loaded when opened. */

import { useState } from 'react';
import { t } from '../shared/i18n';
import { RunSteps } from './RunSteps';
import { useRun } from './useRun';

interface Props {
  runId: string;
  label?: string;
  hasTexts?: boolean;
}

export function Replay({ runId, label = t('runs.showSteps'), hasTexts = true }: Props) {
  const [open, setOpen] = useState(false);
  const { state, resume } = useRun(open ? runId : null);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="min-h-6">{label}</summary>
      {open && <RunSteps state={state} onRetry={resume} hasTexts={hasTexts} />}
    </details>
  );
}
