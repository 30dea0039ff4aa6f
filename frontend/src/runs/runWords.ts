/** What a run is doing, in a sentence. */

import { count } from '../shared/format';
import type { RunState } from './runReducer';

export function runSentence(state: RunState): string {
  if (state.lost) return 'The connection was lost. It is being made again…';
  switch (state.phase) {
    case 'starting':
      return 'The run begins…';
    case 'reading':
      return state.pages === null ? 'The document is being read…' : `Reading: ${state.pages.read} of ${count(state.pages.of, 'page')}`;
    case 'waiting':
      return 'Waits for another run to end';
    case 'working': {
      const running = state.steps.findLast((step) => step.kind === 'tool' && step.status === 'running');
      return running?.kind === 'tool' ? running.message : state.previews.size > 0 ? 'Writing fields…' : 'The agent reads and thinks…';
    }
    case 'approval':
      return 'Needs your approval';
    case 'complete':
      return state.changed.size > 0 ? `Done: ${count(state.changed.size, 'value')} written` : 'Done';
    case 'failed':
      return state.error?.sentence ?? 'It failed.';
  }
}
