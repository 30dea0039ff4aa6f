/** Says that a list is longer than what is shown. */

import { MOST } from './settingsQueries';

export function ListLimitNotice({ of }: { of: { next: string | null } | undefined }) {
  return of?.next ? <p className="muted">These are the newest {MOST}. The API lists all.</p> : null;
}
