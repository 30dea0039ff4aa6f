/** Usage summed over days. */

import type { Used } from '../api/types';

export interface UsageTotal {
  agent: string;
  model: string;
  messages: number;
  /** Includes tokens read from and written to the prompt cache. */
  tokensIn: number;
  tokensOut: number;
  /** null: some prices are not known. */
  costUsd: number | null;
}

/** Return a row per agent and model, the most expensive first, unknown costs last. */
export function summed(items: readonly Used[]): UsageTotal[] {
  const rows = new Map<string, UsageTotal>();
  for (const one of items) {
    const key = JSON.stringify([one.agent, one.model]);
    const row = rows.get(key) ?? {
      agent: one.agent,
      model: one.model,
      messages: 0,
      tokensIn: 0,
      tokensOut: 0,
      costUsd: 0,
    };
    row.messages += one.messages;
    row.tokensIn += one.input_tokens + one.cache_creation_input_tokens + one.cache_read_input_tokens;
    row.tokensOut += one.output_tokens;
    row.costUsd = row.costUsd === null || one.cost_usd === null ? null : row.costUsd + one.cost_usd;
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => (b.costUsd ?? -1) - (a.costUsd ?? -1) || b.messages - a.messages);
}
