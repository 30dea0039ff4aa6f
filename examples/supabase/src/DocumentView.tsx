import { getPageImage, type Decision, type RunEvent, type WaitingCall } from 'fieldmark-client';
import { useEffect, useRef, useState, type SubmitEvent } from 'react';
import { fieldmark, leaves, start, supabase, useLive, type Document, type Extraction, type Field } from './project';

type Box = [x0: number, y0: number, x1: number, y1: number]; // fractions of the page
type Evidence = Record<string, { state: string; page?: number; boxes?: Box[] } | undefined>;

export function DocumentView({ document }: { document: Document }) {
  const of = `document_id=eq.${document.id}`;
  const extractions = useLive('extractions', of, () =>
    supabase.from('extractions').select().eq('document_id', document.id).order('created_at').throwOnError());
  const runs = useLive('runs', of, () =>
    supabase.from('runs').select().eq('document_id', document.id).order('created_at').throwOnError());
  const [extraction, run] = [extractions?.at(-1), runs?.at(-1)];
  const [chosen, choose] = useState<string>();
  const [asks, setAsks] = useState(true);
  const approval = asks ? 'ask' : 'auto';
  const isRunning = run && !['completed', 'failed', 'cancelled'].includes(run.status);
  const evidence = (extraction?.evidence ?? {}) as Evidence;
  const page = evidence[chosen ?? '']?.page ?? 1;
  const boxes = Object.entries(evidence).flatMap(([name, found]) =>
    found?.page === page ? (found.boxes ?? []).map((box) => ({ name, style: position(box) })) : []);

  function correct(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const message = String(new FormData(event.currentTarget).get('message'));
    event.currentTarget.reset();
    void start(document, approval, { id: extraction!.id, message });
  }

  if (document.status !== 'ready') return <p className="empty">{document.error ?? 'The document is being read.'}</p>;
  return (
    <>
      <section className="page" aria-label={`Page ${page}`}>
        <div>
          <PageImage documentId={document.id} number={page} />
          {boxes.map(({ name, style }, index) => (
            <button
              key={index} className="box" style={style} onClick={() => choose(name)}
              aria-label={`Location of ${name}`} aria-pressed={name === chosen}
            />
          ))}
        </div>
      </section>
      <section className="panel" aria-label="Fields">
        <p className="bar">
          <button className="primary" disabled={isRunning} onClick={() => start(document, approval)}>Extract</button>
          <label><input type="checkbox" checked={asks} onChange={() => setAsks(!asks)} /> Ask before each change</label>
        </p>
        {run && <RunLog key={run.id} runId={run.id} />}
        {extraction && <Fields extraction={extraction} chosen={chosen} choose={choose} />}
        <form className="bar" onSubmit={correct} hidden={!extraction}>
          <input name="message" aria-label="Correction" placeholder="Set total to 12.50" required />
          <button disabled={isRunning}>Correct</button>
        </form>
      </section>
    </>
  );
}

/** Return the style of an element that covers the box: its distances from top, right, bottom and left. */
function position([x0, y0, x1, y1]: Box) {
  return { inset: [y0, 1 - x1, 1 - y1, x0].map((fraction) => `${fraction * 100}%`).join(' ') };
}

function PageImage({ documentId, number }: { documentId: string; number: number }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const path = { document_id: documentId, number };
    const image = getPageImage({ ...fieldmark.call, path, query: { width: 1200 }, parseAs: 'blob' });
    const made = image.then(({ data }) => URL.createObjectURL(data as unknown as Blob));
    void made.then(setUrl);
    return () => void made.then(URL.revokeObjectURL);
  }, [documentId, number]);
  return url ? <img src={url} alt="" /> : null;
}

interface FieldsProps { extraction: Extraction; chosen?: string; choose: (name: string) => void }

function Fields({ extraction, chosen, choose }: FieldsProps) {
  // An extraction changes together with the rows of its fields, which have the statuses that every view shows.
  const rows = useLive('extractions', `id=eq.${extraction.id}`, () =>
    supabase.from('fields').select().eq('extraction_id', extraction.id).throwOnError());
  const statuses = new Map(rows?.map(({ path, status, reason }) => [path, reason ? `${status}: ${reason}` : status]));

  async function update({ path, value }: Field, text: string) {
    if (text === String(value ?? '')) return;
    const p_value = typeof value === 'number' && text && !Number.isNaN(Number(text)) ? Number(text) : text || null;
    const change = { p_extraction_id: extraction.id, p_field_path: path, p_value };
    await supabase.rpc('update_extraction_field', change).throwOnError();
  }

  return (
    <ul>
      {leaves(extraction.extracted_fields).map((field) => (
        <li key={field.name} aria-current={field.name === chosen}>
          <label>
            <span>{field.name}</span>
            <input
              key={String(field.value)} defaultValue={String(field.value ?? '')} onFocus={() => choose(field.name)}
              onBlur={({ target }) => void update(field, target.value)}
              onKeyDown={({ key, currentTarget }) => key === 'Enter' && currentTarget.blur()}
            />
          </label>
          <small>{statuses.get(field.name)}</small>
        </li>
      ))}
      {rows?.map(({ path, is_absent }) => is_absent && <li key={path}>{path} <small>{statuses.get(path)}</small></li>)}
    </ul>
  );
}

/** The events of a run as they come, and the call that waits for a decision. */
function RunLog({ runId }: { runId: string }) {
  const [lines, setLines] = useState<string[]>([]);
  const [question, setQuestion] = useState<{ call: WaitingCall; answer: (decision: Decision) => void }>();
  const last = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    const decide = (call: WaitingCall) => new Promise<Decision>((answer) => setQuestion({ call, answer }));
    async function follow() {
      for await (const { event } of fieldmark.follow(runId, { decide, signal: stop.signal })) {
        const line = describe(event);
        if (line) setLines((before) => [...before, line]);
      }
    }
    follow().catch((error: unknown) => stop.signal.aborted || Promise.reject(error));
    return () => stop.abort();
  }, [runId]);
  useEffect(() => void last.current?.scrollIntoView({ block: 'nearest' }), [lines]);

  function answer(decision: Decision) {
    question?.answer(decision);
    setQuestion(undefined);
  }
  return (
    <>
      <div role="log" aria-label="Events" tabIndex={0}>
        {lines.map((line, index) => <p key={index} ref={last}>{line}</p>)}
      </div>
      {question && (
        <div className="question" role="group" aria-label="Approval">
          <strong>{question.call.message}</strong>
          {question.call.changes.map(({ path, old, new: value }) => (
            <p key={path}>
              {path}: {old != null && <del>{JSON.stringify(old)}</del>} <ins>{JSON.stringify(value)}</ins>
            </p>
          ))}
          <p className="bar">
            <button className="primary" onClick={() => answer({ approved: true })}>Approve</button>
            <button onClick={() => answer({ approved: false })}>Reject</button>
          </p>
        </div>
      )}
    </>
  );
}

function describe(event: RunEvent): string | undefined {
  switch (event.type) {
    case 'text': return event.text;
    case 'tool': return event.message;
    case 'changed': return `Changed ${event.changed.map(({ path }) => path).join(', ')}`;
    case 'error': return event.error;
    case 'complete': return 'Done';
  }
}
