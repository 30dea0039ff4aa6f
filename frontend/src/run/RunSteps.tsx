/** The steps of a run; that they are loading, could not be loaded, or are no longer stored. */

import { Button } from '../components/ui/Button';
import { Loading } from '../components/ui/Loading';
import { Notice } from '../components/ui/Notice';
import { t } from '../shared/i18n';
import type { RunState } from './runReducer';
import { RunStep } from './RunStep';

interface Props {
  state: RunState;
  /** Follow the run again. */
  onRetry: () => void;
  /** Without the agent's texts, where they are shown already. */
  hasTexts?: boolean;
}

export function RunSteps({ state: { steps, error, phase, lost, draft }, onRetry, hasTexts = true }: Props) {
  const shown = steps.filter((step) => hasTexts || step.kind !== 'text');
  return (
    <>
      {shown.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
      {error?.code === 'events_forgotten' ? (
        <p className="text-muted-foreground">{error.message}</p>
      ) : error?.code === 'not_followed' ? (
        <Notice kind="bad">
          <p>{error.message}</p>
          <Button onClick={onRetry}>{t('common.tryAgain')}</Button>
        </Notice>
      ) : lost && shown.length === 0 ? (
        <p className="text-muted-foreground">{t('runs.status.lost')}</p>
      ) : phase === 'starting' ? (
        <Loading lines={2} />
      ) : (
        shown.length === 0 && draft === null && <p className="text-muted-foreground">{t('runs.noSteps')}</p>
      )}
    </>
  );
}
