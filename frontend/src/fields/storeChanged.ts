/** Store the response to a change of an extraction in the cache: its fields and its errors. */

import type { QueryClient } from '@tanstack/react-query';
import type { ChangedExtraction } from '../api/types';
import { refresh } from '../api/queryKeys';

export function storeChanged(queries: QueryClient, { problems, errors, ...stored }: ChangedExtraction): void {
  // A request sent before the change would overwrite it with the older version.
  void queries.cancelQueries({ queryKey: ['extraction', stored.id] });
  queries.setQueryData(['problems', stored.id, stored.version], { version: stored.version, problems, errors });
  queries.setQueryData(['extraction', stored.id], stored);
  void refresh(queries, 'extractions', 'documents', ['document', stored.document_id], 'inbox');
}
