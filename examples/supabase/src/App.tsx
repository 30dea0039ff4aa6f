import type { Session } from '@supabase/supabase-js';
import { useEffect, useState, type SubmitEvent } from 'react';
import { createRoot } from 'react-dom/client';
import { DocumentView } from './DocumentView';
import { supabase, upload, useLive } from './project';
import './style.css';

/** The page: a sign-in, then the documents. Every request that fails ends in its alert. */
function App() {
  const [session, setSession] = useState<Session | null>();
  const [error, setError] = useState('');
  useEffect(() => {
    const { subscription } = supabase.auth.onAuthStateChange((_, current) => setSession(current)).data;
    window.onunhandledrejection = ({ reason }) => setError(reason.message);
    return () => subscription.unsubscribe();
  }, []);
  return (
    <>
      {error && <p role="alert">{error} <button onClick={() => setError('')}>Close</button></p>}
      {session === null && <SignIn />}
      {session && <Workspace key={session.user.id} email={session.user.email ?? ''} />}
    </>
  );
}

function SignIn() {
  async function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget, event.nativeEvent.submitter);
    const given = { email: String(form.get('email')), password: String(form.get('password')) };
    const { auth } = supabase;
    const { data, error } = await (form.has('new') ? auth.signUp(given) : auth.signInWithPassword(given));
    if (error) throw error;
    if (!data.session) throw new Error('Confirm your address with the link in the email, then sign in.');
  }
  return (
    <form className="sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      <label>Email <input name="email" type="email" autoComplete="username" required /></label>
      <label>Password <input name="password" type="password" autoComplete="current-password" required /></label>
      <button className="primary">Sign in</button>
      <button name="new">Create account</button>
    </form>
  );
}

function Workspace({ email }: { email: string }) {
  const [chosen, choose] = useState<string>();
  const documents = useLive('documents', undefined, () =>
    supabase.from('documents').select().order('created_at', { ascending: false }).limit(50).throwOnError());
  const document = documents?.find(({ id }) => id === chosen);

  async function add(files: FileList | null) {
    if (files?.[0]) choose(await upload(files[0]));
  }
  return (
    <>
      <header>
        <h1>Fieldmark on Supabase</h1>
        <span>{email}</span>
        <button onClick={() => void supabase.auth.signOut()}>Sign out</button>
      </header>
      <main>
        <nav aria-label="Documents">
          <label className="button primary">
            Upload a document <input type="file" onChange={({ target }) => add(target.files)} />
          </label>
          {documents?.map(({ id, filename, status }) => (
            <button key={id} aria-current={id === chosen} onClick={() => choose(id)}>
              {filename} <small>{status === 'ready' ? '' : status}</small>
            </button>
          ))}
        </nav>
        {document ? <DocumentView key={chosen} document={document} /> : <p className="empty">Choose a document.</p>}
      </main>
    </>
  );
}

createRoot(document.getElementById('root')!).render(<App />);
