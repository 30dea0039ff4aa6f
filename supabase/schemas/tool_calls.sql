-- Tool calls: the ledger. The permission hook enters a call, the tool's transaction claims it and finishes it.

create table public.tool_calls (
  run_id uuid not null,
  id text not null check (char_length(id) between 1 and 200),
  org_id uuid not null,
  tool text not null,
  arguments jsonb not null,
  -- SHA-256 of the arguments' canonical JSON: what was approved is what may run.
  arguments_hash text not null check (arguments_hash ~ '^[0-9a-f]{64}$'),
  -- `waiting`: the runs that it started have not all ended.
  status text not null check (status in ('pending', 'approved', 'waiting', 'refused', 'done', 'failed')),
  approved_by text check (approved_by in ('policy', 'person')),
  reason text,
  -- Which person decided a call that waited, and when; and what the agent had proposed, where the person changed it.
  decided_by uuid,
  decided_at timestamptz,
  proposed jsonb,
  -- What a waiting call would change, as it was shown; the hash and version of what it changes must still be the same.
  changes jsonb,
  target_hash text check (target_hash ~ '^[0-9a-f]{64}$'),
  target_version bigint,
  -- The tool's answer to the model, repeated word for word if the call comes again; and the same for programs.
  result text,
  code text check (char_length(code) between 1 and 100),
  data jsonb,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  primary key (run_id, id),
  check ((status in ('pending', 'refused')) = (approved_by is null)),
  check ((status in ('done', 'failed')) = (result is not null)),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
);
select private.protect_table('public.tool_calls', p_service => '{insert,update}');
grant select,
  insert (
    run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, reason, changes, target_hash,
    target_version
  ),
  update (
    status, result, code, data, finished_at, approved_by, reason, decided_by, decided_at, arguments, arguments_hash,
    proposed, changes, target_hash, target_version
  ) on public.tool_calls to authenticated;

create policy "members read the calls of their runs" on public.tool_calls
  for select to authenticated
  using (org_id in (select private.my_org_ids()) and exists (select from public.runs as r where r.id = run_id));

-- Enters a call, unless it is there. It does not wait for the disk: the transaction that claims the entry does, and
-- what precedes it in the log is then there too.
create function private.record_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_org_id uuid, p_tool text, p_arguments jsonb,
  p_arguments_hash text, p_status text, p_reason text, p_changes jsonb default null, p_target_hash text default null,
  p_target_version bigint default null
) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  -- No lock here: the hook must not wait for whoever writes an event. The tool's transaction holds the fence.
  perform private.require(
    exists (select from public.runs where id = p_run_id and status = 'running' and fencing_token = p_fencing_token),
    'The run has ended or was taken up by another worker.', 'PT410');
  if p_status <> 'pending' then  -- what a person is asked must not be forgotten
    perform set_config('synchronous_commit', 'off', true);
  end if;
  insert into public.tool_calls
    (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, reason, changes, target_hash,
      target_version)
  values (p_run_id, p_call_id, p_org_id, p_tool, p_arguments, p_arguments_hash, p_status,
    case p_status when 'approved' then 'policy' end, p_reason, p_changes, p_target_hash, p_target_version)
  on conflict (run_id, id) do nothing;
end $$;

-- Locks the entry of exactly this call, and says for whom this transaction writes.
create function private.claim_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_tool text, p_arguments_hash text
) returns table (status text, result text, code text, data jsonb)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.fence(p_run_id, p_fencing_token);
  perform set_config('fieldmark.run_id', p_run_id::text, true), set_config('fieldmark.call_id', p_call_id, true);
  return query
    select c.status, c.result, c.code, c.data from public.tool_calls as c
    where c.run_id = p_run_id and c.id = p_call_id and c.tool = p_tool and c.arguments_hash = p_arguments_hash
    for no key update;
end $$;

-- Stores a call's result and events. The caller publishes these after the commit.
create function private.finish_call(
  p_run_id uuid, p_call_id text, p_result text, p_failed boolean, p_code text default null, p_data jsonb default null,
  p_events json default null
) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_event json;
begin
  update public.tool_calls set
    status = case when p_failed then 'failed' else 'done' end, result = p_result, code = p_code, data = p_data,
    finished_at = clock_timestamp()
  where run_id = p_run_id and id = p_call_id and status in ('approved', 'waiting');
  perform private.require(
    found, 'This call is not one that is carried out: it was not approved, or has been answered.', 'PT409');
  if not p_failed then
    update public.runs set consecutive_failures = 0 where id = p_run_id and consecutive_failures > 0;
  end if;
  for v_event in select value from json_array_elements(p_events) loop
    perform private.append_event(p_run_id, v_event, false);
  end loop;
end $$;
