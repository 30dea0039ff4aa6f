/** Signing in: with Supabase Auth where the service names a project, else by the link or the token of the command line. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState, type FormEvent } from 'react';
import type { Config } from '../api/types';
import { Button } from '../shared/Button';
import { ErrorNotice, Notice } from '../shared/Notice';
import icon from '../shared/icon.svg';
import { configQuery } from './config';
import { usePersisted } from '../shared/persisted';
import { offeredToken, session, subjectOf, useSession } from './session';
import styles from './SignIn.module.css';

export function SignIn() {
  const { ended } = useSession();
  const config = useQuery(configQuery);
  return (
    <main className={styles.page}>
      <div className={styles.card}>
        <div className={styles.brand}>
          <img src={icon} alt="" width={24} height={24} />
          <h1>Fieldmark</h1>
        </div>
        {ended !== null && <Notice kind="unsure">{ended}</Notice>}
        {config.isError && <ErrorNotice error={config.error} onRetry={() => void config.refetch()} />}
        {config.data !== undefined && <Ways config={config.data} />}
      </div>
    </main>
  );
}

function Ways({ config }: { config: Config }) {
  const { supabase } = config;
  if (supabase === null) return <ByToken />;
  if (supabase.publishable_key === null) {
    return (
      <Notice kind="unsure">
        The service knows Supabase, but not the key that pages sign in with. Whoever runs it sets{' '}
        <code>SUPABASE_PUBLISHABLE_KEY</code>.
      </Notice>
    );
  }
  return <BySupabase url={supabase.url} publishableKey={supabase.publishable_key} />;
}

function ByToken() {
  const [token, setToken] = useState('');
  const linked = usePersisted(offeredToken);
  if (linked !== null) {
    // Else somebody's link would put whoever opens it into that person's account, with all that they upload there.
    return (
      <div className={styles.form}>
        <p>
          This link signs you in as user <code>{subjectOf(linked)}</code>. Continue only if you created the link yourself, or
          asked for it. Documents that you upload belong to that account.
        </p>
        <Button kind="main" onClick={() => session.signIn(linked)}>
          Sign in
        </Button>
        <Button onClick={() => offeredToken.set(null)}>Cancel</Button>
      </div>
    );
  }
  const enter = (event: FormEvent) => {
    event.preventDefault();
    // A whole link may be pasted, too.
    session.signIn(token.trim().replace(/^.*#token=/, ''));
  };
  return (
    <form className={styles.form} onSubmit={enter}>
      <p className="muted">
        Open the link that <code>fieldmark serve</code> prints. Or paste it here, or what <code>fieldmark token</code> prints.
      </p>
      <label>
        Link or token
        <input value={token} onChange={(event) => setToken(event.target.value)} autoComplete="off" spellCheck={false} required />
      </label>
      <Button kind="main" type="submit">
        Sign in
      </Button>
    </form>
  );
}

function BySupabase({ url, publishableKey }: { url: string; publishableKey: string }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [said, setSaid] = useState<{ kind: 'plain' | 'bad'; words: string } | null>(null);
  const [busy, setBusy] = useState(false);

  useEffect(() => {
    void import('./supabase').then(({ connect }) => connect(url, publishableKey));
  }, [url, publishableKey]);

  async function enter(byLink: boolean) {
    setBusy(true);
    setSaid(null);
    try {
      const { connect } = await import('./supabase');
      const { auth } = await connect(url, publishableKey);
      const { error } = byLink
        ? await auth.signInWithOtp({ email, options: { emailRedirectTo: location.href } })
        : await auth.signInWithPassword({ email, password });
      if (error !== null) setSaid({ kind: 'bad', words: error.message });
      else if (byLink) setSaid({ kind: 'plain', words: `A link is on its way to ${email}. Open it in this browser.` });
    } catch {
      setSaid({ kind: 'bad', words: 'Supabase Auth was not reached. Try again shortly.' });
    } finally {
      setBusy(false);
    }
  }

  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        void enter(password === '');
      }}
    >
      <label>
        Email
        <input type="email" autoComplete="username" value={email} onChange={(event) => setEmail(event.target.value)} required />
      </label>
      <label>
        Password (or none, for a link by email)
        <input
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
      </label>
      {said !== null && <Notice kind={said.kind}>{said.words}</Notice>}
      <Button kind="main" type="submit" disabled={busy}>
        {password === '' ? 'Send a link' : 'Sign in'}
      </Button>
    </form>
  );
}
