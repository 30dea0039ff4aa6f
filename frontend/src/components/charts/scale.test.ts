import { expect, test } from 'vitest';
import { axisLines, labelled } from './scale';

test('an axis has few round lines and ends above the largest value', () => {
  expect(axisLines(1.23)).toEqual([0, 0.5, 1, 1.5]);
  expect(axisLines(0.055)).toEqual([0, 0.02, 0.04, 0.06]);
  expect(axisLines(0)).toEqual([0, 1]);
  for (let most = 0.0007; most < 5000; most *= 1.37) {
    const lines = axisLines(most);
    expect(lines.length).toBeGreaterThanOrEqual(3);
    expect(lines.length).toBeLessThanOrEqual(7);
    expect(lines.at(-1)).toBeGreaterThanOrEqual(most * 0.999999);
  }
});

test('labels are at equal distances', () => {
  expect([...labelled(30, 5)]).toEqual([0, 6, 12, 18, 24]);
  expect([...labelled(3, 8)]).toEqual([0, 1, 2]);
});
