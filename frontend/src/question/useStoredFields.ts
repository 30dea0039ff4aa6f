/** A stored extraction with its fields as rows, for a question about one of them. */

import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { extractionQuery, problemsQuery, schemaOfQuery } from '../fields/extractionQueries';
import { fieldRows } from '../fields/fieldTree';
import { schemaFields } from '../fields/schemaFields';

/** `hasEmpty`: also the fields of the schema that have no value. `isFresh`: loaded again, whatever is in the cache. */
export function useStoredFields(extractionId: string, { hasEmpty = false, isFresh = false } = {}) {
  const extraction = useQuery({ ...extractionQuery(extractionId), ...(isFresh && { staleTime: 0 }) });
  const stored = extraction.data;
  const schemaOf = useQuery(schemaOfQuery(extractionId));
  const schema = useMemo(() => schemaFields(schemaOf.data ?? {}), [schemaOf.data]);
  const problems = useQuery({ ...problemsQuery(extractionId, stored?.version ?? 0), enabled: stored?.valid === false });
  const errors = problems.data?.errors;
  const rows = useMemo(
    () => (stored === undefined ? [] : fieldRows({ extraction: stored, schema, hasEmpty, errors })),
    [stored, schema, hasEmpty, errors],
  );
  return { stored, error: extraction.error, schema, errors, rows };
}
