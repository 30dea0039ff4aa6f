/** Shows what others change: asks every second and a half which extractions changed, and loads what is shown of them. */

import type { QueryClient } from '@tanstack/react-query';
import { session } from '../session/session';
import { client } from './client';
import { refresh } from './queryKeys';

const EVERY_MS = 1500;
const SLOW_MS = 15_000; // after an error
/** A change is listed once its transaction ends, at the time at which it began. */
const OVERLAP_MS = 15_000;

export function followUpdates(queries: QueryClient): void {
  let since: number | null = null;
  let seen = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const ask = async (): Promise<number> => {
    if (document.hidden || session.get().token === null) return EVERY_MS;
    const from = new Date(since ?? Date.now()).toISOString();
    const query = { changed_since: from, limit: since === null ? 1 : 200 };
    const { data, response } = await client.GET('/api/extractions', { params: { query } });
    const isFirst = since === null;
    const now = response.headers.get('X-Database-Time'); // other clocks may be minutes off
    if (now !== null) since = Date.parse(now) - OVERLAP_MS;
    const listed = isFirst ? [] : (data?.items ?? []);
    const fresh = listed.filter((one) => {
      const known = queries.getQueryData<{ updated_at: string }>(['extraction', one.id]);
      return !seen.has(`${one.id} ${one.updated_at}`) && known?.updated_at !== one.updated_at;
    });
    seen = new Set(listed.map((one) => `${one.id} ${one.updated_at}`));
    if (fresh.length === 0) return EVERY_MS;
    for (const { id } of fresh) void refresh(queries, ['extraction', id]);
    void refresh(queries, 'extractions', 'records', 'stacks', 'documents');
    return EVERY_MS;
  };
  const next = () => {
    clearTimeout(timer);
    void ask()
      .catch(() => SLOW_MS)
      .then((wait) => {
        clearTimeout(timer);
        timer = setTimeout(next, wait);
      });
  };
  next();
  addEventListener('visibilitychange', () => !document.hidden && next());
  session.subscribe(() => {
    since = null;
  });
}
