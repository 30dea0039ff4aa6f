/** Signing in: with Supabase Auth if the service uses it, else with the link or token from the terminal. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState, type FormEvent } from 'react';
import type { Config } from '../api/types';
import { Button } from '../components/ui/Button';
import { codeText } from '../shared/codeText';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { t } from '../shared/i18n';
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
        {config.data !== undefined && <SignInForm config={config.data} />}
      </div>
    </main>
  );
}

function SignInForm({ config }: { config: Config }) {
  const { supabase } = config;
  if (supabase === null) return <TokenForm />;
  if (supabase.publishable_key === null) {
    return <Notice kind="unsure">{t('signIn.notSetUp')}</Notice>;
  }
  return <SupabaseForm url={supabase.url} publishableKey={supabase.publishable_key} />;
}

function TokenForm() {
  const [token, setToken] = useState('');
  const linked = usePersisted(offeredToken);
  if (linked !== null) {
    // Without this question a link could sign people into its sender's account, with all that they upload there.
    return (
      <div className={styles.form}>
        <p>{t('signIn.linkedUser', { user: subjectOf(linked) ?? '' })}</p>
        <Button kind="main" onClick={() => session.signIn(linked)}>
          {t('signIn.submit')}
        </Button>
        <Button onClick={() => offeredToken.set(null)}>{t('common.cancel')}</Button>
      </div>
    );
  }
  const enter = (event: FormEvent) => {
    event.preventDefault();
    // The whole link may be pasted, too.
    session.signIn(token.trim().replace(/^.*#token=/, ''));
  };
  return (
    <form className={styles.form} onSubmit={enter}>
      <p className="muted">{t('signIn.tokenHint')}</p>
      <label>
        {t('signIn.token')}
        <input
          value={token}
          onChange={(event) => setToken(event.target.value)}
          autoComplete="off"
          spellCheck={false}
          required
        />
      </label>
      <Button kind="main" type="submit">
        {t('signIn.submit')}
      </Button>
    </form>
  );
}

function SupabaseForm({ url, publishableKey }: { url: string; publishableKey: string }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [notice, setNotice] = useState<{ kind: 'plain' | 'bad'; text: string } | null>(null);
  const [busy, setBusy] = useState(false);

  useEffect(() => {
    void import('./supabase').then(({ connect }) => connect(url, publishableKey));
  }, [url, publishableKey]);

  async function enter(byLink: boolean) {
    setBusy(true);
    setNotice(null);
    try {
      const { connect } = await import('./supabase');
      const { auth } = await connect(url, publishableKey);
      const { error } = byLink
        ? await auth.signInWithOtp({ email, options: { emailRedirectTo: location.href } })
        : await auth.signInWithPassword({ email, password });
      if (error !== null) setNotice({ kind: 'bad', text: codeText('signInErrors', error.code, error.message) });
      else if (byLink) setNotice({ kind: 'plain', text: t('signIn.linkSent', { email }) });
    } catch {
      setNotice({ kind: 'bad', text: t('signIn.unreachable') });
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
      }}>
      <label>
        {t('signIn.email')}
        <input
          type="email"
          autoComplete="username"
          value={email}
          onChange={(event) => setEmail(event.target.value)}
          required
        />
      </label>
      <label>
        {t('signIn.password')}
        <input
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
      </label>
      {notice !== null && <Notice kind={notice.kind}>{notice.text}</Notice>}
      <Button kind="main" type="submit" disabled={busy}>
        {password === '' ? t('signIn.emailLink') : t('signIn.submit')}
      </Button>
    </form>
  );
}
