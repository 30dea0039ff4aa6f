/** Grouping the changes of an extraction by version. */

import type { Change } from '../api/types';

export interface Version {
  version: number;
  changes: Change[];
  at: string;
  actor: Change['actor'];
  userId: string | null;
}

/** Group changes by version. Both are ordered from the newest. */
export function versionsOf(changes: readonly Change[]): Version[] {
  const versions: Version[] = [];
  for (const change of changes) {
    const last = versions.at(-1);
    if (last?.version === change.version) last.changes.push(change);
    else versions.push({ version: change.version, changes: [change], at: change.created_at, actor: change.actor, userId: change.user_id });
  }
  return versions;
}
