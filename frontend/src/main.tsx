/** Starts the page. */

import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './shared/styles/tokens.css';
import './shared/styles/base.css';
import { ApiError } from './api/client';
import { router } from './router';
import { configQuery } from './session/config';
import { identityKey, isExpired, offeredToken, session, subjectOf, takeLinkToken } from './session/session';
import { onOtherTabChange } from './shared/otherTabs';
import { followTheme } from './shared/theme';
import { toast } from './shared/Toasts';

const queries = new QueryClient({
  queryCache: new QueryCache({
    // Whoever was removed from an organisation is told there is none: then it is asked where they belong.
    onError: (error) => {
      const isMissing = error instanceof ApiError && error.status === 404 && session.get().organisationId !== null;
      if (isMissing) void queries.invalidateQueries({ queryKey: ['me'] });
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What was refused is refused again; what was not reached may be there in a moment.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiError && error.status < 500),
      retryDelay: (failures) => Math.min(300 * 2 ** failures, 4000),
    },
  },
});

// Before anything is drawn for somebody else, in this tab or told by another one.
let acting = identityKey(session.get());
session.subscribe(() => {
  const now = identityKey(session.get());
  if (now === acting) return;
  acting = now;
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'config' });
});

onOtherTabChange(() => {
  void queries.invalidateQueries({
    // What never changes, and what stays until somebody asks anew, says so by its `staleTime`.
    predicate: ({ observers }) => observers.some(({ options }) => options.staleTime !== Infinity),
    // Nobody looks: it is asked for when somebody does.
    refetchType: document.hidden ? 'none' : 'active',
  });
});

followTheme();
void begin();

async function begin() {
  await signIn();
  // A link that is pasted into a tab with the page changes nothing but what is behind the #.
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

/** By the link's token, where the service itself signs tokens; by what Supabase knows, where it does. */
async function signIn() {
  const linked = takeLinkToken();
  const config = await queries.fetchQuery({ ...configQuery, retry: false }).catch(() => undefined);
  if (config?.supabase?.publishable_key) {
    const { connect } = await import('./session/supabase');
    await connect(config.supabase.url, config.supabase.publishable_key);
  } else if (linked !== null) {
    const own = session.get().token;
    // Somebody else's link must not put a person into somebody else's account without a word.
    if (own !== null && subjectOf(own) === subjectOf(linked)) session.signIn(linked);
    else if (own === null || isExpired(own)) offeredToken.set(linked);
    else {
      const act = () => session.signIn(linked);
      setTimeout(() => toast('The link is another person’s. You are still signed in as before.', { action: { words: 'Change', act }, seconds: 20 }), 500);
    }
  }
}
