/** Supabase Auth. Loaded only if the service is configured with a project. */

import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { session } from './session';

let client: SupabaseClient | null = null;

/** Connect to Supabase Auth: restore an existing session and keep its token fresh. */
export async function connect(url: string, key: string): Promise<SupabaseClient> {
  if (client !== null) return client;
  const made = createClient(url, key, { auth: { detectSessionInUrl: true, flowType: 'pkce' } });
  client = made;
  const current = async () => (await made.auth.getSession()).data.session?.access_token ?? null;
  session.setTokenSource(current);
  made.auth.onAuthStateChange((event, found) => {
    if (found !== null) session.signIn(found.access_token);
    else if (event === 'SIGNED_OUT') session.signOut();
  });
  const token = await current();
  if (token !== null) session.signIn(token);
  return made;
}

export async function signOut(): Promise<void> {
  await client?.auth.signOut().catch(() => undefined);
  session.signOut();
}
