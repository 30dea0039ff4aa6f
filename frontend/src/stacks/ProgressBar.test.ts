import { expect, test } from 'vitest';
import { progressText } from './ProgressBar';

test('the documents read are counted among those that get a row', () => {
  const none = { unreadable: 0, waiting: 0, running: 0, awaiting_approval: 0, cost_usd: 0 };
  const progress = {
    ...none,
    documents: 68,
    done: 50,
    incomplete: 6,
    stale: 5,
    failed: 3,
    duplicates: 2,
    containers: 2,
  };
  expect(progressText(progress).match(/\d+/g)).toEqual(['55', '64']);
});
