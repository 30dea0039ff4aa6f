/** What a run is doing, in a sentence. */

import { count } from '../shared/format';
import type { RunState } from './runReducer';

export function runStatusText(state: RunState): string {
  if (state.lost) return 'Connection lost. Reconnecting…';
  switch (state.phase) {
    case 'starting':
      return 'Starting…';
    case 'reading':
      return state.pages === null ? 'Reading the document…' : `Reading: ${state.pages.read} of ${count(state.pages.of, 'page')}`;
    case 'waiting':
      return 'Queued behind another run';
    case 'working': {
      const running = state.steps.findLast((step) => step.kind === 'tool' && step.status === 'running');
      return running?.kind === 'tool' ? running.message : state.previews.size > 0 ? 'Writing fields…' : 'Thinking…';
    }
    case 'approval':
      return 'Needs your approval';
    case 'complete':
      return state.changed.size > 0 ? `Done: ${count(state.changed.size, 'field')} written` : 'Done';
    case 'failed':
      return state.error?.sentence ?? 'The run failed.';
  }
}
