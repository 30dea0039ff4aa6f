// From a sign-in with Supabase to a corrected field. SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY, FIELDMARK_URL; the user's
// address, password and the file's path as arguments.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { Fieldmark, isLast, type WaitingCall } from 'fieldmark-client';

const { SUPABASE_URL = '', SUPABASE_PUBLISHABLE_KEY = '', FIELDMARK_URL = '' } = process.env;
const [email = '', password = '', path = ''] = process.argv.slice(2);
const supabase = createClient(SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY);
await supabase.auth.signInWithPassword({ email, password }).then(({ error }) => { if (error) throw error; });
const { data: organisation } = await supabase.rpc('ensure_personal_organisation').throwOnError();

// Everything but decisions goes through Supabase; the service accepts the same session.
const key = async () => (await supabase.auth.getSession()).data.session?.access_token;
const fieldmark = new Fieldmark({ baseUrl: FIELDMARK_URL, key });

const document = crypto.randomUUID();
const storage_path = `${organisation}/${document}/${basename(path)}`;
const uploaded = await supabase.storage.from('documents').upload(storage_path, await readFile(path));
if (uploaded.error) throw uploaded.error;
const row = { id: document, org_id: organisation, filename: basename(path), storage_path };
await supabase.from('documents').insert(row).throwOnError();

const extraction = crypto.randomUUID();
await supabase.from('extractions').insert({ id: extraction, org_id: organisation, document_id: document }).throwOnError();

/** Start a run and follow it over Realtime to its end. Its first waiting call is approved with changed arguments. */
async function run(task: string, input: object, approval: string): Promise<string[]> {
  const id = crypto.randomUUID();
  const types: string[] = [];
  let end: () => void;
  const ended = new Promise<void>((done) => (end = done));
  const filter = `run_id=eq.${id}`;
  const channel = supabase.channel(id).on<{ body: { type: string } }>(
    'postgres_changes', { event: 'INSERT', schema: 'public', table: 'run_events', filter }, ({ new: { body } }) => {
      types.push(body.type);
      if (isLast(body) && body.type !== 'approval') end();
    });
  await new Promise<void>((done) => channel.subscribe((status) => { if (status === 'SUBSCRIBED') done(); }));
  const about = { agent: 'extraction', document_id: document, extraction_id: extraction };
  await supabase.from('runs').insert({ id, org_id: organisation, task, input, approval, ...about }).throwOnError();
  for await (const { event } of fieldmark.follow(id, { decide })) {
    if (event.type === 'error') throw new Error(`${event.code}: ${event.error}`);
  }
  await ended;
  await supabase.removeChannel(channel);
  return types;
}

function decide({ tool, input }: WaitingCall) {
  if (tool !== 'extract_fields') return { approved: true } as const;
  return { approved: true, input: { ...input, fields: { ...(input.fields as object), reviewed_by: 'Ada' } } } as const;
}

const events = await run('extract', {}, 'ask');
const update = { p_extraction_id: extraction, p_field_path: ['vendor', 'name'], p_value: 'Acme' };
const { data: updated } = await supabase.rpc('update_extraction_field', update).throwOnError();
await run('correct', { message: 'set total to 12' }, 'auto');
const { data: found } = await supabase.from('extractions').select('extracted_fields, evidence, locks, documents(filename)')
  .eq('id', extraction).single().throwOnError();
const journal = await supabase.from('extraction_journal').select('id').eq('extraction_id', extraction).throwOnError();
await supabase.realtime.disconnect();
await supabase.auth.signOut();
console.log(JSON.stringify({ events, changed: updated.changed, changes: journal.data.length, ...found }));
