/** Starts the page. */

import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './shared/styles/tokens.css';
import './shared/styles/base.css';
import { answer, api, Refused } from './api/client';
import { router } from './router';
import { actingAs, isOver, session, subjectOf, takeTokenOfLink } from './session/session';
import { followTheme } from './shared/theme';
import { tell } from './shared/Toasts';

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What was refused is refused again; what was not reached may be there in a moment.
      retry: (failures, error) => failures < 3 && !(error instanceof Refused && error.status < 500),
      retryDelay: (failures) => Math.min(300 * 2 ** failures, 4000),
    },
  },
});

// Before anything is drawn for somebody else, in this tab or told by another one.
let acting = actingAs(session.get());
session.subscribe(() => {
  const now = actingAs(session.get());
  if (now === acting) return;
  acting = now;
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'config' });
});

followTheme();
void begin();

async function begin() {
  await signIn();
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
  const linked = takeTokenOfLink();
  const config = await answer(api.GET('/api/config')).catch(() => undefined);
  if (config !== undefined) queries.setQueryData(['config'], config);
  if (config?.supabase?.publishable_key) {
    const { connect } = await import('./session/supabase');
    await connect(config.supabase.url, config.supabase.publishable_key);
  } else if (linked !== null) {
    const own = session.get().token;
    // Somebody else's link must not put a person into somebody else's account without a word.
    const isAnother = own !== null && !isOver(own) && subjectOf(own) !== subjectOf(linked);
    if (!isAnother) session.enter(linked);
    else {
      const act = () => session.enter(linked);
      setTimeout(() => tell('The link is another person’s. You are still signed in as before.', { action: { words: 'Change', act }, seconds: 20 }), 500);
    }
  }
}
