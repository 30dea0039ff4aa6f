// Every verb once. FIELDMARK_URL, FIELDMARK_KEY; a webhook's secret, body and headers as arguments. Prints what a caller
// sees.
import {
  createSchema, Fieldmark, FieldmarkError, InvalidSignature, verifyWebhook, type WaitingCall,
} from 'fieldmark-client';

const [secret = '', body = '', headers = '{}'] = process.argv.slice(2);
const fieldmark = new Fieldmark({ baseUrl: process.env.FIELDMARK_URL ?? '', key: process.env.FIELDMARK_KEY ?? '' });
const schema = { type: 'object', properties: { total: { type: 'number' } } };
await createSchema({ ...fieldmark.call, body: { name: 'Invoices', schema } });

async function codeOf(failing: Promise<unknown>): Promise<string> {
  return failing.then(() => 'none', (error) => (error instanceof FieldmarkError ? error.code : error.name));
}

const first = { file: new File(['Invoice number: 1\nTotal: 10.00 EUR\n'], 'a.txt'), options: { externalId: 'order-1', metadata: { team: 'north' } } };
const second = new File(['Invoice number: 2\nTotal: 20.00 EUR\n'], 'b.txt');
const uploads: string[] = [];
const runs: string[] = [];
for await (const sent of fieldmark.uploadMany([first, second, first], { extract: 'invoices', atOnce: 1 })) {
  uploads.push(sent.error?.code ?? sent.document?.filename ?? '');
  if (sent.document?.run_id) runs.push(sent.document.run_id);
}
const ended = [];
for (const run of runs) ended.push((await fieldmark.wait(run, { seconds: 100 })).status);
const { id, document_id } = (await fieldmark.wait(runs[0]!)).extraction!;
const { run_id: correction } = await fieldmark.correct({ extraction_id: id, message: 'set total to 11', approval: 'ask' });
let asked: WaitingCall | null | undefined;
const tools: string[] = [];
while ((asked = (await fieldmark.wait(correction)).waits_for) != null) {
  tools.push(asked.tool);
  await fieldmark.decide(correction, asked.call_id, { approved: true });
}
const { version } = await fieldmark.extraction(id);
const changed = await fieldmark.setFields(id, { total: 12 }, { version });
const conflict = await codeOf(fieldmark.setFields(id, { total: 13 }, { version }));
const asking = await fieldmark.ask({ message: 'How many invoices are over 15?' });
const names: string[] = [];
for await (const document of fieldmark.documents()) names.push(document.filename);
const rows = (await fieldmark.rows('Invoices', { sort: 'total' })).map((row) => row.total);
const tables = [];
for (const table of ['Invoices', 'Unknown']) tables.push(await codeOf(fieldmark.upload(second, { table })));
const changes: string[] = [];
for await (const change of fieldmark.changes(0, { types: ['extraction.completed'] })) changes.push(change.type);
const { run_id: slow } = await fieldmark.extract({ document_id, approval: 'ask' });
const late = await codeOf(fieldmark.wait(slow, { seconds: 0 }));

const signed = JSON.parse(headers) as Record<string, string>;
const event = await verifyWebhook(secret, body, signed);
async function refusal(...given: Parameters<typeof verifyWebhook>): Promise<string> {
  return verifyWebhook(...given).then(() => 'none', (error) => (error instanceof InvalidSignature ? 'refused' : String(error)));
}
const refusals = [
  await refusal(secret, `${body} `, signed),
  await refusal(`whsec_${btoa('another secret')}`, body, signed),
  await refusal(secret, body, { ...signed, 'webhook-timestamp': '1' }),
  await refusal(secret, body, { ...signed, 'webhook-signature': 'v1,ä v1 v2,AAAA' }),
  await refusal(secret, body, {}),
];

console.log(JSON.stringify({
  uploads, ended, total: changed.extracted_fields.total, conflict, tools, asking: asking.status, late, changes,
  document: (await fieldmark.document(document_id)).external_id,
  names: names.sort(), rows, tables,
  event: event.type, refusals,
}));
