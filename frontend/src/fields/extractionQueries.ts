/** Queries of the document page. */

import { queryOptions } from '@tanstack/react-query';
import { api, fetchFile } from '../api/client';
import type { AutoCreation, Extraction, FieldLocation, MissingRow, RuleFix, RunStatus } from '../api/types';

export const extractionsQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['extractions', 'all of', documentId],
    queryFn: async ({ signal }) => {
      const query = { document_id: documentId, limit: 50 };
      return (await api.get('/api/extractions', { query, signal })).items;
    },
  });

export const extractionQuery = (extractionId: string) =>
  queryOptions({
    queryKey: ['extraction', extractionId],
    queryFn: async ({ signal }) => {
      const path = { extraction_id: extractionId };
      return (await api.get('/api/extractions/{extraction_id}', { path, signal })) as Extraction;
    },
  });

/** The key has the version, so that the errors match the fields that are shown. */
export const problemsQuery = (extractionId: string, version: number) =>
  queryOptions({
    queryKey: ['problems', extractionId, version],
    queryFn: ({ signal }) =>
      api.get('/api/extractions/{extraction_id}/problems', { path: { extraction_id: extractionId }, signal }),
    staleTime: Infinity,
  });

/** Other printed values that would satisfy a failed rule. */
export const ruleFixesQuery = (extractionId: string, version: number) =>
  queryOptions({
    queryKey: ['rule_fixes', extractionId, version],
    queryFn: async ({ signal }) =>
      (await api.get('/api/extractions/{extraction_id}/rule_fixes', { path: { extraction_id: extractionId }, signal }))
        .items as RuleFix[],
    staleTime: Infinity,
  });

/** Printed lines that look like rows of a list and are in no item. The key has the version, as the paths depend on it. */
export const missingRowsQuery = (extractionId: string, version: number) =>
  queryOptions({
    queryKey: ['missing_rows', extractionId, version],
    queryFn: async ({ signal }) =>
      (
        await api.get('/api/extractions/{extraction_id}/missing_rows', {
          path: { extraction_id: extractionId },
          signal,
        })
      ).items as MissingRow[],
    staleTime: Infinity,
  });

/** All locations where a field's value is printed. */
export const placesQuery = (extractionId: string, version: number, path: string) =>
  queryOptions({
    queryKey: ['locations', extractionId, version, path],
    queryFn: async ({ signal }) =>
      (
        await api.get('/api/extractions/{extraction_id}/locations', {
          path: { extraction_id: extractionId },
          query: { path },
          signal,
        })
      ).items as FieldLocation[],
    staleTime: Infinity,
  });

/** The words of a page. They never change. */
export const pageQuery = (documentId: string, number: number) =>
  queryOptions({
    queryKey: ['page', documentId, number],
    queryFn: ({ signal }) =>
      api.get('/api/documents/{document_id}/pages/{number}', { path: { document_id: documentId, number }, signal }),
    staleTime: Infinity,
    gcTime: 120_000,
  });

export const pageImageQuery = (documentId: string, number: number) =>
  queryOptions({
    queryKey: ['page image', documentId, number],
    queryFn: ({ signal }) =>
      fetchFile(`/api/documents/${encodeURIComponent(documentId)}/pages/${number}.png`, { signal }),
    staleTime: Infinity,
    gcTime: 60_000,
  });

/** A thumbnail. `width` in pixels. */
export const smallImageQuery = (documentId: string, number: number, width: number) =>
  queryOptions({
    queryKey: ['page image', documentId, number, width],
    queryFn: ({ signal }) =>
      fetchFile(`/api/documents/${encodeURIComponent(documentId)}/pages/${number}.png?width=${width}`, { signal }),
    staleTime: Infinity,
    gcTime: 300_000,
  });

export const schemaOfQuery = (extractionId: string) =>
  queryOptions({
    queryKey: ['schema of', extractionId],
    queryFn: async ({ signal }) =>
      (await api.get('/api/extractions/{extraction_id}/schema', { path: { extraction_id: extractionId }, signal }))
        .schema,
    staleTime: 60_000,
  });

/** The latest run that extracted or corrected the document. Runs of conversations are shown in the chat. */
export const lastRunQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['runs', 'last of', documentId],
    queryFn: async ({ signal }): Promise<{ id: string; status?: RunStatus } | null> => {
      const query = { document_id: documentId, limit: 50 };
      const { items } = await api.get('/api/runs', { query, signal });
      return items.find((one) => one.task === 'extract' || one.task === 'correct') ?? null;
    },
  });

/** The schemas of the organisation, also those that an agent suggests. */
export const schemasQuery = queryOptions({
  queryKey: ['schemas', 'names'],
  queryFn: async ({ signal }) => (await api.get('/api/schemas', { query: { limit: 200 }, signal })).items,
  staleTime: 0, // it is offered as a choice: others add to it meanwhile
});

export const schemaQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['schemas', 'one', schemaId],
    queryFn: ({ signal }) => api.get('/api/schemas/{schema_id}', { path: { schema_id: schemaId }, signal }),
  });

/** The prompts of the organisation, in their latest versions. */
export const promptsQuery = queryOptions({
  queryKey: ['prompts'],
  queryFn: async () => (await api.get('/api/prompts', { query: { limit: 200 } })).items,
  staleTime: 30_000,
});

export const schemaVersionQuery = (revid: string) =>
  queryOptions({
    queryKey: ['schemas', 'version', revid],
    queryFn: ({ signal }) => api.get('/api/schema_versions/{schema_revid}', { path: { schema_revid: revid }, signal }),
    staleTime: 60_000,
  });

/** The schema that accepting a suggestion keeps: its newest version, or the version that a saved schema was matched with.
 * The key starts like that of `schemasQuery`: both are invalidated together. */
export const proposedSchemaQuery = ({ schema_revid: revid, matched }: Pick<AutoCreation, 'schema_revid' | 'matched'>) =>
  queryOptions({
    queryKey: ['schemas', 'proposed', revid],
    queryFn: async ({ signal }) => {
      const params = { path: { schema_revid: revid! } };
      const version = await api.get('/api/schema_versions/{schema_revid}', { ...params, signal });
      if (version.latest || matched !== null) return version;
      return api.get('/api/schemas/{schema_id}', { path: { schema_id: version.id }, signal });
    },
    enabled: revid !== null,
  });

/** The paths of all fields in documents, of one type or of all types. */
export const knownFieldsQuery = (documentType: string | null) =>
  queryOptions({
    queryKey: ['known fields', documentType],
    queryFn: async ({ signal }) => {
      const query = documentType === null ? {} : { document_type: documentType };
      return (await api.get('/api/fields', { query, signal })).fields;
    },
    staleTime: 60_000,
  });
