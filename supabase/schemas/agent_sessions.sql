-- Agent sessions: the transcripts of runs, so that any worker can resume one.

create table public.agent_sessions (
  number bigint generated always as identity primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  session_id text not null check (char_length(session_id) between 1 and 200),
  subpath text not null default '' check (char_length(subpath) <= 500),
  -- The entry's own id, if it has one. A batch that is sent again is stored once.
  uuid text,
  -- json, not jsonb: a transcript may contain \u0000, which jsonb rejects.
  entry json not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create unique index agent_sessions_uuid on public.agent_sessions (org_id, session_id, subpath, uuid)
  where uuid is not null;
create index agent_sessions_of on public.agent_sessions (org_id, session_id, subpath, number);
select private.protect_table('public.agent_sessions', p_service => '{insert}');
grant select, insert (org_id, session_id, subpath, uuid, entry) on public.agent_sessions to authenticated;

create policy "the service reads its members' conversations" on public.agent_sessions
  for select to authenticated using (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Deletes the conversation of a run that ended or was deleted.
create function private.delete_conversation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.agent_sessions
  where org_id = old.org_id and session_id = old.session_id::text;
  return null;
end $$;

create trigger delete_conversation after delete on public.runs
  for each row when (old.session_id is not null) execute function private.delete_conversation();
create trigger delete_conversation_of_ended_run after update of status on public.runs
  for each row when (new.status in ('completed', 'failed', 'cancelled') and old.session_id is not null)
  execute function private.delete_conversation();
