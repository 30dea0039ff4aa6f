/** One step of a run. A tool call opens to its input and output. */

import { memo } from 'react';
import { Check, Sparkles, X } from 'lucide-react';
import { codeText } from '../shared/codeText';
import { formatDuration } from '../shared/format';
import { t } from '../shared/i18n';
import { RunDraft } from './RunDraft';
import styles from './RunPanel.module.css';
import type { RunState, Step } from './runReducer';
import { runStatusText } from './runStatusText';
import { toolText } from './toolText';

export const RunStep = memo(function RunStep({ step }: { step: Step }) {
  switch (step.kind) {
    case 'text':
      return <p className={styles.text}>{step.text}</p>;
    case 'thinking':
      return (
        <details className={styles.step}>
          <summary>
            <Sparkles size={13} aria-hidden="true" /> <span className={styles.summary}>{t('runs.reasoning')}</span>
            {step.durationMs !== undefined && <span>{formatDuration(step.durationMs)}</span>}
          </summary>
          <p className={`${styles.text} muted`}>{step.text}</p>
        </details>
      );
    case 'retry':
      return <p className="muted">{codeText('retries', step.code, step.text, step.params)}</p>;
    case 'tool':
      return (
        <details className={styles.step}>
          <summary>
            {step.status === 'running' && <span className={styles.pulse} />}
            {step.status === 'complete' && (
              <span className={styles.good}>
                <Check size={13} aria-hidden="true" />
              </span>
            )}
            {step.status === 'error' && (
              <span className={styles.bad}>
                <X size={13} aria-hidden="true" />
              </span>
            )}
            <span className={`${styles.summary} truncate`}>{toolText(step)}</span>
            {step.durationMs !== undefined && <span>{formatDuration(step.durationMs)}</span>}
          </summary>
          <p className="muted">
            <code>{step.tool}</code>
          </p>
          {step.status === 'error' && <p>{codeText('errors', step.code, '')}</p>}
          {step.input !== undefined && <pre>{JSON.stringify(step.input, null, 2)}</pre>}
          {(step.error ?? step.output) !== undefined && <pre>{step.error ?? step.output}</pre>}
          {step.children?.map((child) => (
            <ChildRun key={child.runId} state={child} />
          ))}
        </details>
      );
  }
});

/** A run that a tool call has started. */
function ChildRun({ state }: { state: RunState }) {
  return (
    <div className={styles.child} role="group" aria-label={t('runs.subtask')}>
      <p className="muted">{runStatusText(state)}</p>
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
      {state.draft !== null && <RunDraft draft={state.draft} />}
    </div>
  );
}
