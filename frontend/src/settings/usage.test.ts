import { expect, test } from 'vitest';
import type { Used } from '../api/types';
import { summed } from './usage';

const used = (agent: string, cost: number | null, more: Partial<Used> = {}): Used => ({
  ...{ day: '2026-01-01', agent, model: 'm', messages: 1, input_tokens: 1, output_tokens: 2 },
  ...{ cache_creation_input_tokens: 10, cache_read_input_tokens: 100, cost_usd: cost },
  ...more,
});

test('usage is summed over days, the most expensive first', () => {
  const rows = summed([used('chat', 1), used('ask', 2), used('chat', 3, { day: '2026-01-02' })]);
  expect(rows.map((one) => [one.agent, one.messages, one.tokensIn, one.tokensOut, one.costUsd])).toEqual([
    ['chat', 2, 222, 4, 4],
    ['ask', 1, 111, 2, 2],
  ]);
});

test('a sum with an unknown part is unknown', () => {
  expect(summed([used('chat', 1), used('chat', null), used('ask', 0)]).map((one) => [one.agent, one.costUsd])).toEqual([
    ['ask', 0],
    ['chat', null],
  ]);
});
