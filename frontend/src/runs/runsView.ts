/** Which runs are listed, and which is open: part of the address. */

export const FILTERS = ['all', 'running', 'awaiting_approval', 'failed', 'completed'] as const;
export type RunFilter = (typeof FILTERS)[number];

export interface RunsView {
  show?: Exclude<RunFilter, 'all'>;
  document?: string;
}

/** Parse the search parameters of an address; drop invalid ones. */
export function parseRunsView({ show, document }: Record<string, unknown>): RunsView {
  return {
    ...((FILTERS as readonly unknown[]).includes(show) && show !== 'all' && { show: show as 'failed' }),
    ...(typeof document === 'string' && document !== '' && { document }),
  };
}
