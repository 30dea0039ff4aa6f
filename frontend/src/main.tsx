/** Starts the page. */

import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './styles/index.css';
import { ApiError } from './api/client';
import { followUpdates } from './api/updates';
import { router } from './router';
import { configQuery } from './session/config';
import { identityKey, isExpired, offeredToken, session, subjectOf, takeLinkToken } from './session/session';
import { onOtherTabChange } from './shared/otherTabs';
import { followLanguage, t } from './shared/i18n';
import { followTheme } from './shared/theme';
import { toast } from './components/ui/Toast';
import { refresh } from './api/queryKeys';

const queries = new QueryClient({
  queryCache: new QueryCache({
    // A removed member gets 404 for the organisation: load the organisations again.
    onError: (error) => {
      const isMissing = error instanceof ApiError && error.status === 404 && session.get().organisationId !== null;
      if (isMissing) void refresh(queries, 'me');
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A refusal stays a refusal; a network or server error may pass.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiError && error.status < 500),
      retryDelay: (failures) => Math.min(300 * 2 ** failures, 4000),
    },
  },
});

// Forget what was loaded for one account or organisation before another one is shown.
let acting = identityKey(session.get());
session.subscribe(() => {
  const now = identityKey(session.get());
  if (now === acting) return;
  acting = now;
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'config' });
});

onOtherTabChange(() => {
  void queries.invalidateQueries({
    // Queries that never change have an infinite `staleTime`.
    predicate: ({ observers }) => observers.some(({ options }) => options.staleTime !== Infinity),
    // A hidden tab loads when it is shown again.
    refetchType: document.hidden ? 'none' : 'active',
  });
});

followUpdates(queries);
followTheme();
void start();

async function start() {
  await Promise.all([signIn(), followLanguage()]);
  // A sign-in link pasted into an open tab changes only the part behind the #.
  addEventListener('hashchange', () => void signIn());
  createRoot(document.getElementById('page')!).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  );
}

/** Sign in with the token of a link, or with Supabase Auth where the service uses it. */
async function signIn() {
  const linked = takeLinkToken();
  const config = await queries.fetchQuery({ ...configQuery, retry: false }).catch(() => undefined);
  if (config?.supabase?.publishable_key) {
    const { connect } = await import('./session/supabase');
    await connect(config.supabase.url, config.supabase.publishable_key);
  } else if (linked !== null) {
    const own = session.get().token;
    // A link of another person must not switch the account silently.
    if (own !== null && subjectOf(own) === subjectOf(linked)) session.signIn(linked);
    else if (own === null || isExpired(own)) offeredToken.set(linked);
    else {
      const act = () => session.signIn(linked);
      setTimeout(
        () => toast(t('signIn.otherAccount'), { action: { label: t('signIn.switchAccount'), act }, seconds: 20 }),
        500,
      );
    }
  }
}
