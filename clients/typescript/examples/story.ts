// From a file to a checked extraction. FIELDMARK_URL, FIELDMARK_KEY, and the file's path as the argument.
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { exportExtraction, Fieldmark, getMe, isLast, type WaitingCall } from 'fieldmark-client';

const [path = ''] = process.argv.slice(2);
const fieldmark = new Fieldmark({ baseUrl: process.env.FIELDMARK_URL ?? '', key: process.env.FIELDMARK_KEY ?? '' });
const { call } = fieldmark;

const { data: me } = await getMe(call);
console.log('signed in with the key', me.key?.name);

const document = await fieldmark.upload(new File([await readFile(path)], basename(path)));
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

const id = run.extraction_id ?? '';
await fieldmark.setFields(id, { reviewed_by: 'Grace', note: 'paid' }, { version: 1 });
const found = await fieldmark.extraction(id);
const { data: csv } = await exportExtraction({
  ...call,
  path: { extraction_id: id },
  query: { format: 'csv' },
  parseAs: 'text',
});
await writeFile('extraction.csv', String(csv));
console.log(JSON.stringify({ events: total, version: found.version, fields: found.extracted_fields }));
