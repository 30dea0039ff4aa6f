-- Decisions: a call waits for approval. The transaction of the decision runs the call, then the run continues.

-- `p_attached`: the worker keeps the CLI process alive for a while.
create function private.await_approval(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_attached boolean, p_event json
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform private.fence(p_run_id, p_fencing_token);
  perform from public.tool_calls where run_id = p_run_id and id = p_call_id and status = 'pending';
  perform private.require(found, 'This call is not waiting for approval.', 'PT410');
  update public.runs set status = 'awaiting_approval', waiting_call = p_call_id, attached = p_attached
  where id = p_run_id;
  if p_event is not null then
    perform private.append_event(p_run_id, p_event, false);
  end if;
end $$;

-- Shows a waiting call again, because its target has changed since it was shown.
create function private.show_updated_call(
  p_run_id uuid, p_call_id text, p_changes jsonb, p_target_hash text, p_target_version bigint, p_event json
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.runs
  where id = p_run_id and status = 'awaiting_approval' and waiting_call = p_call_id for no key update;
  if found then
    update public.tool_calls
    set changes = p_changes, target_hash = p_target_hash, target_version = p_target_version
    where run_id = p_run_id and id = p_call_id and status = 'pending';
  end if;
  perform private.require(found, 'This call has already been decided.', 'PT409');
  perform private.append_event(p_run_id, p_event, false);
end $$;

-- Why the caller may not decide the calls of a run: read_only, not_approver, second_person_needed, not_found (another
-- user's run), or '' if they may. By default the user who started the run, directly or by a key, decides.
create function private.approval_refusal_reason_for(p_org_id uuid, p_created_by uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select case
      when me.role = 'viewer' then 'read_only'
      when o.approvers = 'owners' and me.role <> 'owner' then 'not_approver'
      when o.second_person and private.user_of(p_created_by) = private.user_of(auth.uid()) then 'second_person_needed'
      when o.second_person then ''
      when p_created_by = auth.uid() or o.approvers = 'owners'
        or private.user_of(p_created_by) = private.user_of(auth.uid())
        or coalesce(private.role_of(p_org_id, p_created_by) = 'viewer', true) then ''
      else 'not_found'
    end
    from private.my_memberships() as me join public.organisations as o on o.id = me.org_id
    where me.org_id = p_org_id
  ), 'not_found')
$$;

-- For a child run the starter of its root run counts, not the person who approved the call that started it.
create function private.approval_refusal_reason(p_run public.runs) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.approval_refusal_reason_for(
    p_run.org_id, (select created_by from public.runs where id = p_run.root_run_id))
$$;

-- The users of an organisation whose runs the caller may not decide.
create function private.decided_by_others(p_org_id uuid) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select user_id from private.actors
  where org_id = p_org_id and private.approval_refusal_reason_for(p_org_id, user_id) <> ''
$$;

-- Decides a waiting call once, as it was shown (its arguments have the hash `p_hash`). Returns the new status, or null
-- if it was already decided. The rest of the transaction runs the call; private.resume_run continues the run.
create function private.start_decision(
  p_run_id uuid, p_call_id text, p_hash text, p_approved boolean, p_reason text, p_arguments json,
  p_arguments_hash text
) returns text language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_status text := case when p_approved then 'approved' else 'refused' end;
  v_run public.runs;
begin
  select * into v_run from public.runs
  where id = p_run_id and status = 'awaiting_approval' and waiting_call = p_call_id for no key update;
  if not found or private.approval_refusal_reason(v_run) <> '' then
    return null;
  end if;
  update public.tool_calls set
    status = v_status, approved_by = case when p_approved then 'person' end, reason = p_reason,
    decided_by = auth.uid(), decided_at = clock_timestamp(),
    proposed = case when p_arguments is null then null else arguments end,
    arguments = coalesce(p_arguments, arguments), arguments_hash = coalesce(p_arguments_hash, arguments_hash)
  where run_id = p_run_id and id = p_call_id and status = 'pending' and arguments_hash = p_hash;
  if not found then
    return null;
  end if;
  perform set_config('fieldmark.run_id', p_run_id::text, true), set_config('fieldmark.call_id', p_call_id, true);
  return v_status;
end $$;

-- Approves later calls of these tools in a run that waits for the caller. Returns false if a second person must decide.
create function private.approve_later_calls(p_run_id uuid, p_tools text[]) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.runs as r
  set auto_approved_tools = array(select distinct tool from unnest(r.auto_approved_tools || p_tools) as tool order by tool)
  where r.id = p_run_id and r.status = 'awaiting_approval' and private.is_service()
    and r.org_id in (select private.my_writable_org_ids()) and private.approval_refusal_reason(r) = ''
    and not exists (select from public.organisations as o where o.id = r.org_id and o.second_person);
  return found;
end $$;

-- Continues a run after a decision: at once if its CLI is attached and there is capacity, otherwise through the queue.
-- Returns the run's status, or null if it has ended or is not visible.
create function private.resume_run(p_run_id uuid) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
  v_status text := 'queued';
begin
  select * into v_run from public.runs
  where id = p_run_id and status not in ('completed', 'failed', 'cancelled') for no key update;
  if not found or v_run.status <> 'awaiting_approval' then
    return v_run.status;
  end if;
  perform from public.tool_calls where run_id = p_run_id and id = v_run.waiting_call and status = 'pending';
  perform private.require(not found, 'The call that the run waits for has not been decided.', 'PT409');
  if v_run.attached then
    perform private.lock_credit(v_run.org_id);
    if private.count_active_runs(v_run.org_id, p_run_id) <
        coalesce((select max_concurrent_runs from public.credit_limits where org_id = v_run.org_id), 2147483647)
      and not private.is_credit_spent(v_run.org_id) and not private.is_blocked(v_run) then
      v_status := 'running';
    end if;
    perform pg_notify('fieldmark_work', p_run_id::text);
  end if;
  update public.runs set status = v_status, attached = false, consecutive_failures = 0 where id = p_run_id;
  return v_status;
end $$;

-- Records that the worker's CLI is gone. Queues the run if it was decided or its child runs have ended. Returns the status.
create function private.detach_run(p_run_id uuid, p_fencing_token integer) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  select * into v_run from public.runs
  where id = p_run_id and fencing_token = p_fencing_token and status not in ('completed', 'failed', 'cancelled')
  for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
  if v_run.status in ('running', 'awaiting_runs') then
    v_run.status := 'queued';
    if private.has_open_children(p_run_id, v_run.waiting_call) and exists (
      select from public.tool_calls where run_id = p_run_id and id = v_run.waiting_call and status = 'waiting')
    then
      v_run.status := 'awaiting_runs';
    end if;
  end if;
  update public.runs set attached = false, status = v_run.status where id = p_run_id;
  return v_run.status;
end $$;

-- Like detach_run, for a run whose worker seems dead: a new fencing token stops that worker from writing.
create function private.detach_dead_worker(p_run_id uuid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_token integer;
begin
  update public.runs set fencing_token = fencing_token + 1
  where id = p_run_id and attached and status in ('awaiting_approval', 'awaiting_runs')
  returning fencing_token into v_token;
  if found then
    perform private.detach_run(p_run_id, v_token);
  end if;
end $$;
