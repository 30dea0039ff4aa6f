-- Sessions: the agent's conversation, so that a run can be taken up again on any machine.

set local lock_timeout = '10s';
set local statement_timeout = '5min';

create table public.agent_sessions (
  number bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  -- What the SDK calls a project key; the service uses one for all runs.
  project text not null check (char_length(project) between 1 and 500),
  session_id text not null check (char_length(session_id) between 1 and 200),
  -- Empty for the conversation itself.
  subpath text not null default '' check (char_length(subpath) <= 500),
  -- The entry's own id, where it has one: the same entry comes twice when a batch is sent again.
  uuid text,
  -- As text: the transcript may hold \u0000, which jsonb refuses, and with it the whole batch.
  entry json not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);
create unique index agent_sessions_uuid on public.agent_sessions (org_id, project, session_id, subpath, uuid)
  where uuid is not null;
create index agent_sessions_of on public.agent_sessions (org_id, project, session_id, subpath, number);

alter table public.agent_sessions enable row level security;
alter table public.agent_sessions force row level security;
revoke all on public.agent_sessions from anon, authenticated;
grant select, delete, insert (org_id, project, session_id, subpath, uuid, entry) on public.agent_sessions to authenticated;

create policy "the service reads its members' conversations" on public.agent_sessions
  for select to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "the service keeps its members' conversations" on public.agent_sessions
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "the service forgets its members' conversations" on public.agent_sessions
  for delete to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));
