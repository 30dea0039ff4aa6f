// A front end as design 004 describes it: it posts, reads the stream, and looks at the keys of each object.
const [url, token, body] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
const response = await fetch(url, { method: 'POST', headers, body });
let rest = '';
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    if (!line.startsWith('data:')) continue;
    const event = JSON.parse(line.slice(5));
    if (event.text) console.log(JSON.stringify(['text', event.text]));
    else if (event.tool) console.log(JSON.stringify(['tool', event.tool, event.input]));
    else if (event.complete) console.log(JSON.stringify(['complete', event.extraction_id, event.cost]));
  }
}
