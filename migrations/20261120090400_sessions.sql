-- Sessions: the agent's conversation, so that a run can be taken up again on any machine.

set local lock_timeout = '10s';
set local statement_timeout = '5min';

create table public.agent_sessions (
  number bigint generated always as identity primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
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
revoke all on sequence public.agent_sessions_number_seq from anon, authenticated;
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

-- A conversation holds what the document says: it goes with its run.
create function private.forget_conversation() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from public.agent_sessions where org_id = old.org_id and session_id = old.session_id::text;
  return null;
end $$;

create trigger forget_conversation after delete on public.runs
  for each row when (old.session_id is not null) execute function private.forget_conversation();

-- What the workers do now and then, for all tenants: ends runs that waited for a person for too long, and forgets
-- conversations of runs that ended long ago. Null: never.
create function private.sweep(p_approvals_live interval, p_sessions_live interval) returns void
language plpgsql security definer set search_path = ''
as $$
begin
  perform private.cancel_run(r.id, 'Nobody decided in time.')
  from public.runs as r
  join public.tool_calls as c on c.run_id = r.id and c.id = r.waiting_call
  where r.status = 'awaiting_approval' and c.created_at < now() - p_approvals_live;

  delete from public.agent_sessions as s
  using public.runs as r
  where r.session_id::text = s.session_id and r.org_id = s.org_id
    and r.status in ('completed', 'failed', 'cancelled') and r.finished_at < now() - p_sessions_live;
end $$;

revoke execute on function private.forget_conversation(), private.sweep(interval, interval) from public;
grant execute on function private.sweep(interval, interval) to fieldmark_app;

do $$
begin
  if not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    execute format(
      'create policy "definer functions act as the owner" on public.agent_sessions to %I using (true) with check (true)',
      current_user);
  end if;
end $$;
