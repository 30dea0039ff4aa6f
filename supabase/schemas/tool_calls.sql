-- Tool calls: the ledger. The permission hook records a call; the tool's transaction claims and finishes it.

create table public.tool_calls (
  run_id uuid not null,
  id text not null check (char_length(id) between 1 and 200),
  org_id uuid not null,
  tool text not null,
  -- `json`, so that a schema in them keeps the order of its fields.
  arguments json not null,
  -- SHA-256 of the arguments' canonical JSON: a call runs only with the arguments that were approved.
  arguments_hash text not null check (arguments_hash ~ '^[0-9a-f]{64}$'),
  -- `waiting`: child runs of the call are still open.
  status text not null check (status in ('pending', 'approved', 'waiting', 'refused', 'done', 'failed')),
  approved_by text check (approved_by in ('policy', 'person')),
  reason text,
  -- The user who decided the call, and when; and the agent's original arguments, if the user changed them.
  decided_by uuid,
  decided_at timestamptz,
  proposed json,
  -- The changes of a waiting call, as shown. Its target must still have this hash and version.
  changes jsonb,
  target_hash text check (target_hash ~ '^[0-9a-f]{64}$'),
  target_version bigint,
  -- The tool's result for the model, repeated if the call comes again; and as data for programs.
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
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
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

create policy "members read the calls of their runs" on public.tool_calls for select to authenticated
  using (org_id in (select private.my_org_ids()) and exists (select from public.runs as r where r.id = run_id));

-- Records a call once. Does not wait for the disk: the transaction that claims the call does, and
-- earlier log records are then on disk too.
create function private.record_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_org_id uuid, p_tool text, p_arguments json,
  p_arguments_hash text, p_status text, p_reason text, p_changes jsonb default null, p_target_hash text default null,
  p_target_version bigint default null
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- No lock here: the hook must not wait for writers of events. The tool's transaction holds the fence.
  perform private.require(
    exists (select from public.runs where id = p_run_id and status = 'running' and fencing_token = p_fencing_token),
    'The run has ended, or another worker has taken it over.', 'PT410');
  if p_status <> 'pending' then  -- a pending decision must survive a crash
    perform set_config('synchronous_commit', 'off', true);
  end if;
  insert into public.tool_calls
    (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, reason, changes, target_hash,
      target_version)
  values (p_run_id, p_call_id, p_org_id, p_tool, p_arguments, p_arguments_hash, p_status,
    case p_status when 'approved' then 'policy' end, p_reason, p_changes, p_target_hash, p_target_version)
  on conflict (run_id, id) do nothing;
end $$;

-- Locks this call, and sets the author of this transaction's writes.
create function private.claim_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_tool text, p_arguments_hash text
) returns table (status text, result text, code text, data jsonb)
language plpgsql set search_path = pg_catalog, pg_temp as $$
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
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.tool_calls set
    status = case when p_failed then 'failed' else 'done' end, result = p_result, code = p_code, data = p_data,
    finished_at = clock_timestamp()
  where run_id = p_run_id and id = p_call_id and status in ('approved', 'waiting');
  perform private.require(found, 'This call cannot run: it was not approved, or it has already finished.', 'PT409');
  if not p_failed then
    update public.runs set consecutive_failures = 0 where id = p_run_id and consecutive_failures > 0;
  end if;
  perform private.append_event(p_run_id, value, false) from json_array_elements(p_events);
end $$;
