/** Grouping the changes of an extraction by version. */

import type { Change } from '../api/types';

export interface Version {
  version: number;
  changes: Change[];
  at: string;
  actor: Change['actor'];
  userId: string | null;
  /** The person whose message names all values of the version that an agent wrote. */
  dictatedBy: string | null;
  /** The run that wrote the values. */
  runId: string | null;
}

/** Group changes by version. Both are ordered from the newest. */
export function versionsOf(changes: readonly Change[]): Version[] {
  const versions: Version[] = [];
  for (const change of changes) {
    const last = versions.at(-1);
    if (last?.version === change.version) {
      last.changes.push(change);
      if (change.dictated_by === null) last.dictatedBy = null;
    } else {
      const { version, created_at: at, actor, user_id: userId, dictated_by: dictatedBy, run_id: runId } = change;
      versions.push({ version, changes: [change], at, actor, userId, dictatedBy, runId });
    }
  }
  return versions;
}
