/** Queries for schemas, and what is stored on this device until it is published. */

import { queryOptions } from '@tanstack/react-query';
import { api } from '../api/client';
import { startExtraction } from '../api/runs';
import type { Extraction } from '../api/types';
import type { Shape } from './schemaModel';
import { DAY_MS, isoDay } from '../shared/format';

const LIMIT = 200;

/** Schemas for usual documents, to start from. */
export const templatesQuery = queryOptions({
  queryKey: ['schemas', 'templates'],
  queryFn: async ({ signal }) => (await api.get('/api/schema_templates', { signal })).items,
  staleTime: Infinity,
});

export const versionsQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['schemas', 'versions', schemaId],
    queryFn: async ({ signal }) => {
      const params = { path: { schema_id: schemaId }, query: { limit: LIMIT } };
      return (await api.get('/api/schemas/{schema_id}/versions', { ...params, signal })).items;
    },
  });

export const promptsOfQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['prompts', 'of', schemaId],
    queryFn: async ({ signal }) => {
      const query = { schema_id: schemaId, limit: LIMIT };
      const { items } = await api.get('/api/prompts', { query, signal });
      return Promise.all(
        items.map(({ id }) => api.get('/api/prompts/{prompt_id}', { path: { prompt_id: id }, signal })),
      );
    },
  });

/** What a schema that is not stored yet would change. */
export const effectQuery = (schemaId: string, schema: Shape) =>
  queryOptions({
    queryKey: ['schemas', 'effect', schemaId, schema],
    queryFn: ({ signal }) =>
      api.post('/api/schemas/{schema_id}/changes', { path: { schema_id: schemaId }, body: { schema }, signal }),
    retry: false,
  });

/** How often each field has a value: `documents` and, by path, `filled`. */
export const filledQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['schemas', 'filled', schemaId],
    queryFn: async ({ signal }) => {
      const query = { since: isoDay(Date.now() - 360 * DAY_MS), until: isoDay(Date.now()) };
      const params = { path: { schema_id: schemaId }, query };
      const quality = await api.get('/api/schemas/{schema_id}/quality', { ...params, signal });
      return { documents: quality.documents, filled: new Map(quality.columns.map((one) => [one.path, one.filled])) };
    },
    staleTime: 60_000,
  });

/** The newest documents of the table, and for examples the extraction with most located values. */
export const examplesQuery = (schemaId: string) =>
  queryOptions({
    queryKey: ['schemas', 'examples', schemaId],
    queryFn: async ({ signal }) => {
      const params = { path: { table_id: schemaId }, query: { limit: 20 } };
      const { items } = await api.get('/api/tables/{table_id}/rows', { ...params, signal });
      const located = ({ cells }: (typeof items)[number]) =>
        Object.values(cells).filter(({ page }) => page != null).length;
      const read = items.filter((one) => one.extraction_id !== null);
      const [best] = read.toSorted((a, b) => located(b) - located(a));
      const extraction =
        best === undefined
          ? null
          : ((await api.get('/api/extractions/{extraction_id}', {
              path: { extraction_id: best.extraction_id! },
              signal,
            })) as Extraction);
      return { rows: read, extraction };
    },
    staleTime: 60_000,
  });

export interface Trial {
  documentId: string;
  filename: string;
  before: Readonly<Record<string, unknown>>;
  after: Readonly<Record<string, unknown>> | null;
  error: string | null;
  cost: number | null;
}

const EVERY_MS = 1000;
const ENDED = ['completed', 'failed', 'cancelled'];

/** Read a document with a schema that is not stored. The trial's extraction is deleted again, also if it fails. */
export async function tryOn(documentId: string, schema: Shape): Promise<Pick<Trial, 'after' | 'error' | 'cost'>> {
  const runId = await startExtraction(
    { document_id: documentId, schema: schema as Record<string, never>, approval: 'auto', is_trial: true },
    crypto.randomUUID(),
  );
  const params = { path: { run_id: runId } };
  for (;;) {
    const run = await api.get('/api/runs/{run_id}', params);
    if (!ENDED.includes(run.status)) {
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      continue;
    }
    const path = { extraction_id: run.extraction_id! };
    const made = (await api.get('/api/extractions/{extraction_id}', { path })) as Extraction;
    await api.delete('/api/extractions/{extraction_id}', { path });
    return {
      after: run.status === 'completed' || Object.keys(made.extracted_fields).length > 0 ? made.extracted_fields : null,
      error: run.error,
      cost: run.cost_usd,
    };
  }
}
