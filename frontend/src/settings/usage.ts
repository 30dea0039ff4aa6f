/** What was used, summed over days. */

import type { Used } from '../api/types';

export interface UsedInAll {
  agent: string;
  model: string;
  messages: number;
  /** What was read from a cache, and written to one, counts as read. */
  tokensIn: number;
  tokensOut: number;
  /** null: of some of it the price is not known. */
  costUsd: number | null;
}

/** A row for each agent and model, the dearest first; what has no known price comes last. */
export function summed(items: readonly Used[]): UsedInAll[] {
  const rows = new Map<string, UsedInAll>();
  for (const one of items) {
    const key = JSON.stringify([one.agent, one.model]);
    const row = rows.get(key) ?? { agent: one.agent, model: one.model, messages: 0, tokensIn: 0, tokensOut: 0, costUsd: 0 };
    row.messages += one.messages;
    row.tokensIn += one.input_tokens + one.cache_creation_input_tokens + one.cache_read_input_tokens;
    row.tokensOut += one.output_tokens;
    row.costUsd = row.costUsd === null || one.cost_usd === null ? null : row.costUsd + one.cost_usd;
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => (b.costUsd ?? -1) - (a.costUsd ?? -1) || b.messages - a.messages);
}
