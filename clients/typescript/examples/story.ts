// From a file to a checked extraction. FIELDMARK_URL, FIELDMARK_KEY, and the file's path as the argument.
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import {
  exportExtraction, Fieldmark, getExtraction, getMe, isLast, setFields, uploadDocument, type WaitingCall,
} from '../src/index.js';

const [path = ''] = process.argv.slice(2);
const fieldmark = new Fieldmark({ baseUrl: process.env.FIELDMARK_URL ?? '', key: process.env.FIELDMARK_KEY ?? '' });
const { call } = fieldmark;

const { data: me } = await getMe(call);
console.log('signed in with the key', me.key?.name);

const file = new File([await readFile(path)], basename(path));
const { data: document } = await uploadDocument({ ...call, body: { file } });
const run = await fieldmark.extract({ document_id: document.id, approval: 'ask' });

// The line is cut after the first events …
let seen = 0;
for await (const { id, event } of fieldmark.follow(run.run_id)) {
  seen = id ?? seen;
  if (seen === 2 || isLast(event)) break;
}

// … and what follows them comes, on whichever server. The agent's calls wait for us.
function decide({ tool, input }: WaitingCall) {
  if (tool !== 'extract_fields') return { approved: true } as const;
  const fields = { ...(input.fields as object), reviewed_by: 'Ada' };
  return { approved: true, input: { ...input, fields } } as const;
}
let total = seen;
for await (const { id, event } of fieldmark.follow(run.run_id, { after: seen, decide })) {
  if (id !== undefined && id !== ++total) throw new Error(`event ${id} came as number ${total}`);
  if (event.type === 'error') throw new Error(`${event.code}: ${event.error}`);
  if (event.type === 'changed') console.log('changed', event.changed.map(({ path }) => path).join(', '));
}

const where = { extraction_id: run.extraction_id ?? '' };
await setFields({
  ...call,
  path: where,
  headers: { 'if-match': '1' },
  body: [{ path: 'reviewed_by', value: 'Grace' }, { path: 'note', value: 'paid' }],
});
const { data: found } = await getExtraction({ ...call, path: where });
const { data: csv } = await exportExtraction({ ...call, path: where, query: { format: 'csv' }, parseAs: 'text' });
await writeFile('extraction.csv', String(csv));
console.log(JSON.stringify({ events: total, version: found.version, fields: found.extracted_fields }));
