/** One step of a run. A tool call opens to its input and output. */

import { Fragment, memo } from 'react';
import { Check, Sparkles, X } from 'lucide-react';
import { cn } from '../components/ui/cn';
import { displayValue } from '../fields/fieldValue';
import { keyLabel } from '../fields/labels';
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
          {step.status === 'error' && <p>{codeText('errors', step.code, '')}</p>}
          {step.input !== undefined && shownEntries(step.input).length > 0 && <Data of={step.input} />}
          {(step.error ?? step.output) !== undefined && <pre>{readable(step.error ?? step.output!)}</pre>}
          {step.children?.map((child) => (
            <ChildRun key={child.runId} state={child} />
          ))}
        </details>
      );
  }
});

/** For programs: identifiers, and the agent's confidence in each value. */
const INTERNAL = /(^|_)(ids?|revid|confidences?|confidence_scores)$/;

/** The arguments of a call, as people read them. */
function Data({ of }: { of: Record<string, unknown> }) {
  return (
    <dl className="my-1 grid grid-cols-[fit-content(40%)_minmax(0,1fr)] gap-x-3 rounded-md bg-muted px-2 py-1 wrap-anywhere">
      {shownEntries(of).map(([name, value]) => {
        const isObject = value !== null && typeof value === 'object' && !Array.isArray(value);
        return (
          <Fragment key={name}>
            <dt className={cn('text-muted-foreground', isObject && 'col-span-2')}>{keyLabel(name)}</dt>
            <dd className={cn(isObject && 'col-span-2 pl-3')}>
              {isObject ? <Data of={value as Record<string, unknown>} /> : displayValue(value)}
            </dd>
          </Fragment>
        );
      })}
    </dl>
  );
}

function shownEntries(of: Record<string, unknown>) {
  return Object.entries(of).filter(([name]) => !INTERNAL.test(name));
}

/** Return what a call returned; a list or an object as people read it. */
function readable(output: string): string {
  try {
    const value: unknown = JSON.parse(output);
    return value !== null && typeof value === 'object' ? displayValue(value) : output;
  } catch {
    return output;
  }
}

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
