/** The status of a run in a few words. */

import { codeText } from '../shared/codeText';
import { t } from '../shared/i18n';
import type { RunState } from './runReducer';
import { toolText } from './toolText';

export function runStatusText(state: RunState): string {
  if (state.lost) return t('runs.status.lost');
  switch (state.phase) {
    case 'starting':
      return t('runs.status.starting');
    case 'reading':
      return state.pages === null
        ? t('runs.status.reading')
        : t('runs.status.readingPages', { read: state.pages.read, count: state.pages.of });
    case 'waiting':
      return t('runs.status.queued');
    case 'working': {
      const running = state.steps.findLast((step) => step.kind === 'tool' && step.status === 'running');
      return running?.kind === 'tool'
        ? toolText(running)
        : state.previews.size > 0
          ? t('runs.status.writing')
          : t('runs.status.thinking');
    }
    case 'approval':
      return t('runs.status.approval');
    case 'complete':
      return state.changed.size > 0 ? t('runs.status.extracted', { count: state.changed.size }) : t('runs.status.done');
    case 'failed':
      return state.error === null
        ? t('runs.status.failed')
        : codeText('runErrors', state.error.code, state.error.message);
  }
}
