/** Signing in: with Supabase Auth if the service uses it, else with the link or token from the terminal. */

import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Config } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { codeText } from '../shared/codeText';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { t } from '../shared/i18n';
import icon from '../shared/icon.svg';
import { configQuery } from './config';
import { usePersisted } from '../shared/persisted';
import { offeredToken, session, subjectOf, useSession } from './session';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';

export function SignIn() {
  const { ended } = useSession();
  const config = useQuery(configQuery);
  return (
    <main className="grid min-h-full place-items-center bg-canvas p-4">
      <div className="grid w-full max-w-sm gap-4 rounded-xl border border-border bg-card p-6 shadow-md">
        <div className="flex items-center gap-3">
          <img src={icon} alt="" width={36} height={36} className="rounded-lg" />
          <div>
            <h1 className="text-lg font-semibold">Fieldmark</h1>
            <p className="text-muted-foreground">{t('signIn.product')}</p>
          </div>
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
      <div className="grid gap-3">
        <p>{t('signIn.linkedUser')}</p>
        <p className="text-xs text-muted-foreground" title={subjectOf(linked) ?? ''}>
          {t('signIn.account', { user: `${(subjectOf(linked) ?? '').slice(0, 8)}…` })}
        </p>
        <Button kind="main" size="md" onClick={() => session.signIn(linked)}>
          {t('signIn.submit')}
        </Button>
        <Button kind="quiet" size="md" onClick={() => offeredToken.set(null)}>
          {t('common.cancel')}
        </Button>
      </div>
    );
  }
  const enter = () => {
    // The whole link may be pasted, too.
    session.signIn(token.trim().replace(/^.*#token=/, ''));
  };
  return (
    <Form className="grid gap-3" onSubmit={enter}>
      <p className="muted">{t('signIn.tokenHint')}</p>
      <Field label={t('signIn.token')}>
        <Input value={token} onValueChange={setToken} autoComplete="off" spellCheck={false} required />
      </Field>
      <Button kind="main" size="md" type="submit">
        {t('signIn.submit')}
      </Button>
    </Form>
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
    <Form
      className="grid gap-3"
      onSubmit={() => {
        void enter(password === '');
      }}>
      <Field label={t('signIn.email')}>
        <Input type="email" autoComplete="username" value={email} onValueChange={setEmail} required />
      </Field>
      <Field label={t('signIn.password')}>
        <Input type="password" autoComplete="current-password" value={password} onValueChange={setPassword} />
      </Field>
      {notice !== null && <Notice kind={notice.kind}>{notice.text}</Notice>}
      <Button kind="main" size="md" type="submit" disabled={busy}>
        {password === '' ? t('signIn.emailLink') : t('signIn.submit')}
      </Button>
    </Form>
  );
}
