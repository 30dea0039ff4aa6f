// Temporary failures in front of each kind of request. Prints how often each was sent.
import { Fieldmark, FieldmarkError } from 'fieldmark-client';

let sent: Request[] = [];
let answers: (Response | Error)[] = [];
const fieldmark = new Fieldmark({
  baseUrl: 'http://service',
  key: 'k',
  fetch: async (input) => {
    sent.push(input as Request);
    const answer = answers[Math.min(sent.length, answers.length) - 1]!;
    if (answer instanceof Error) throw answer;
    return answer.clone();
  },
});

async function count(call: () => Promise<unknown>, ...given: (Response | Error)[]): Promise<[number, number, string]> {
  [sent, answers] = [[], given];
  const code = await call().then(() => '', (error) => (error instanceof FieldmarkError ? error.code : error.name));
  return [sent.length, new Set(sent.map((one) => one.headers.get('idempotency-key'))).size, code];
}
const unavailable = () => Response.json({ code: 'unavailable', detail: 'Later.' }, { status: 503 });
const ok = Response.json({ id: '1' });
console.log(JSON.stringify({
  upload: await count(() => fieldmark.upload(new File(['a'], 'a.txt')), unavailable(), new TypeError('lost'), ok),
  read: await count(() => fieldmark.document('d'), unavailable(), ok),
  decide: await count(() => fieldmark.decide('r', 'c', { approved: true }), unavailable()),
  refused: await count(() => fieldmark.document('d'), Response.json({ code: 'not_found', detail: 'No.' }, { status: 404 })),
}));
