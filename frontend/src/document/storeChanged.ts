/** Keep what the service answered to a change of an extraction: the fields as they are now, and what is wrong with them. */

import type { QueryClient } from '@tanstack/react-query';
import type { ChangedExtraction } from '../api/types';

export function storeChanged(queries: QueryClient, { problems, errors, ...stored }: ChangedExtraction): void {
  // What was asked for before this was written would put the version before in its place.
  void queries.cancelQueries({ queryKey: ['extraction', stored.id] });
  queries.setQueryData(['problems', stored.id, stored.version], { version: stored.version, problems, errors });
  queries.setQueryData(['extraction', stored.id], stored);
  for (const queryKey of [['extractions'], ['documents'], ['document', stored.document_id]]) void queries.invalidateQueries({ queryKey });
}
