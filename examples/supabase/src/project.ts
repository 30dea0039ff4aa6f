import { createClient } from '@supabase/supabase-js';
import { Fieldmark } from 'fieldmark-client';
import { useEffect, useState } from 'react';
import type { Database, Json } from '../../../supabase/database.types';

const { SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY, VITE_FIELDMARK_URL } = import.meta.env;
export const supabase = createClient<Database>(SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY);

/** The service accepts the session of Supabase, which is refreshed: its token is read for each request. */
export const fieldmark = new Fieldmark({
  baseUrl: VITE_FIELDMARK_URL,
  key: async () => (await supabase.auth.getSession()).data.session?.access_token,
});

type Tables = Database['public']['Tables'];
export type Document = Tables['documents']['Row'];
export type Extraction = Tables['extractions']['Row'];
export type Run = Tables['runs']['Row'];

/** Load rows, and load them again when Realtime reports a change of the table's rows that `of` selects. */
export function useLive<T>(table: keyof Tables, of: string | undefined, load: () => PromiseLike<{ data: T }>) {
  const [rows, setRows] = useState<T>();
  useEffect(() => {
    let latest = 0;
    const reload = () => {
      const current = ++latest; // a response that is older than the last request is dropped
      void load().then(({ data }) => current === latest && setRows(data));
    };
    const about = { event: '*', schema: 'public', table, filter: of } as const;
    const channel = supabase.channel(`${table}:${of}`).on('postgres_changes', about, reload);
    channel.subscribe(reload); // when it is subscribed, and if that fails
    return () => {
      latest = NaN; // equals no request
      void supabase.removeChannel(channel);
    };
  }, [table, of]);
  return rows;
}

/** Store a file and the row of its document, which starts the reading. Return the document's id. */
export async function upload(file: File) {
  const { data: org_id } = await supabase.rpc('ensure_personal_organisation').throwOnError();
  const id = crypto.randomUUID();
  const storage_path = `${org_id}/${id}/${file.name.replace(/[^\w.-]/g, '_')}`;
  const { error } = await supabase.storage.from('documents').upload(storage_path, file);
  if (error) throw error;
  await supabase.from('documents').insert({ id, org_id, filename: file.name, storage_path }).throwOnError();
  return id;
}

/** Start a run: a new extraction of the document, or a correction of an extraction by a message. */
export async function start(document: Document, approval: 'ask' | 'auto', correct?: { id: string; message: string }) {
  const about = { org_id: document.org_id, document_id: document.id };
  const extraction_id = correct?.id ?? crypto.randomUUID();
  if (!correct) await supabase.from('extractions').insert({ id: extraction_id, ...about }).throwOnError();
  const [task, input] = correct ? ['correct', { message: correct.message }] : ['extract', {}];
  const run = { agent: 'extraction', task, input, extraction_id, approval, ...about };
  await supabase.from('runs').insert(run).throwOnError();
}

/** A value with its name as in `evidence` (items[0].price) and its path as `update_extraction_field` takes it. */
export interface Field { name: string; path: string[]; value: Json }

/** Return the values inside of an extraction's fields. */
export function leaves(value: Json, name = '', path: string[] = []): Field[] {
  if (value === null || typeof value !== 'object') return [{ name, path, value }];
  return Object.entries(value).flatMap(([key, child]) => {
    const childName = Array.isArray(value) ? `${name}[${key}]` : name ? `${name}.${key}` : key;
    return leaves(child ?? null, childName, [...path, key]);
  });
}
