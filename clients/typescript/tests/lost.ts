// Every stream of the first few is lost, or ended too early, behind its first event. FIELDMARK_URL, FIELDMARK_KEY, and
// the id of a run that has ended as the argument. Says which numbers came, and what a refusal is.
import { Fieldmark, FieldmarkError } from 'fieldmark-client';

const [runId = ''] = process.argv.slice(2);
const fieldmark = new Fieldmark({ baseUrl: process.env.FIELDMARK_URL ?? '', key: process.env.FIELDMARK_KEY ?? '' });
let lost = 0;
fieldmark.client.setConfig({
  fetch: async (input, init) => {
    const answer = await fetch(input, init);
    if (answer.headers.get('content-type')?.startsWith('text/event-stream') !== true || lost === 4) return answer;
    lost += 1;
    const [first] = (await answer.text()).match(/data: .*?\n\n/s) ?? [''];
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        // Two pieces, neither of them an event.
        for (const piece of [first.slice(0, 9), first.slice(9)]) stream.enqueue(new TextEncoder().encode(piece));
        if (lost % 2 === 0) stream.close();
      },
      pull(stream) {
        stream.error(new TypeError('lost'));
      },
    });
    return new Response(body, answer);
  },
});

const numbers: (number | undefined)[] = [];
for await (const { id } of fieldmark.follow(runId)) numbers.push(id);

async function refusal(run: string): Promise<string> {
  try {
    await fieldmark.decide(run, 'none', { approved: true });
  } catch (error) {
    if (error instanceof FieldmarkError) return `${error.status} ${error.problem?.code}`;
  }
  return 'none';
}
const beyond = [];
for await (const { id } of fieldmark.follow(runId, { after: numbers.length })) beyond.push(id);
console.log(JSON.stringify({ lost, numbers, beyond, refusal: await refusal(runId) }));
