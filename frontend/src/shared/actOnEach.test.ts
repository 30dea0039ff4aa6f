import { expect, test } from 'vitest';
import { actOnEach } from './actOnEach';

const NUMBERS = Array.from({ length: 20 }, (_, number) => number);

test('a few items at a time, and each ends as done, failed or left', async () => {
  let [running, most, ended] = [0, 0, -1];
  const act = async (number: number) => {
    running += 1;
    most = Math.max(most, running);
    await Promise.resolve();
    running -= 1;
    if (number % 5 === 0) throw new Error(String(number));
  };
  const outcome = await actOnEach(NUMBERS, act, (count) => (ended = count));
  expect([most, ended]).toEqual([4, 20]);
  expect(outcome.failed.map(({ item, error }) => [item, (error as Error).message])).toEqual(
    [0, 5, 10, 15].map((one) => [one, String(one)]),
  );
  expect([...outcome.done, ...outcome.failed.map(({ item }) => item)].toSorted((a, b) => a - b)).toEqual(NUMBERS);
  expect(outcome.left).toEqual([]);
});

test('once stopped, those that were not started are left', async () => {
  let count = 0;
  const outcome = await actOnEach(
    NUMBERS,
    () => Promise.resolve(),
    (ended) => (count = ended),
    () => count >= 6,
  );
  expect(outcome.left.length).toBeGreaterThan(9);
  expect([...outcome.done, ...outcome.left]).toEqual(NUMBERS);
});
