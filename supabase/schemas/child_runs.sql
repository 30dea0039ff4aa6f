-- Child runs: a call starts runs and waits for them, without a worker. Cancelling a run cancels what is part of it.
--
-- Whoever changes several runs of a tree locks the lower ones first, because a run that ends locks its parent after itself.

create function private.has_open_children(p_run_id uuid, p_call_id text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from public.runs
    where parent_run_id = p_run_id and parent_call_id = p_call_id
      and status not in ('completed', 'failed', 'cancelled'))
$$;

-- If no child run is open and no CLI is attached, the run is queued; otherwise private.detach_run does that later.
create function private.await_runs(p_run_id uuid, p_call_id text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_attached boolean;
begin
  select attached or status = 'running' into v_attached from public.runs
  where id = p_run_id and status in ('running', 'awaiting_approval') for no key update;
  perform private.require(found, 'The run has ended or was taken up by another worker.', 'PT410');
  update public.tool_calls set status = 'waiting' where run_id = p_run_id and id = p_call_id and status = 'approved';
  perform private.require(
    found, 'This call is not one that is carried out: it was not approved, or has been answered.', 'PT409');
  update public.runs set
    status = case when v_attached or private.has_open_children(p_run_id, p_call_id) then 'awaiting_runs' else 'queued' end,
    waiting_call = p_call_id, attached = v_attached, consecutive_failures = 0
  where id = p_run_id;
  if v_attached then
    perform pg_notify('fieldmark_work', p_run_id::text);
  end if;
end $$;

-- With the last of the runs that a call waits for, its run goes on.
-- Security definer: whoever ends a run may have no right on its parent.
create function private.wake_parent() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Locked first, so that of two children that end at the same moment the second sees the first.
  perform from public.runs where id = old.parent_run_id for no key update;
  update public.runs set status = 'queued'
  where id = old.parent_run_id and status = 'awaiting_runs' and waiting_call = old.parent_call_id and not attached
    and not private.has_open_children(old.parent_run_id, old.parent_call_id);
  return null;
end $$;

create trigger wake_parent_of_ended after update of status on public.runs
  for each row when (
    old.parent_run_id is not null and new.status in ('completed', 'failed', 'cancelled') and new.status <> old.status)
  execute function private.wake_parent();
create trigger wake_parent_of_deleted after delete on public.runs
  for each row when (
    old.parent_run_id is not null and old.status not in ('completed', 'failed', 'cancelled'))
  execute function private.wake_parent();

create function private.tree_of_run(p_run_id uuid) returns uuid[]
language sql stable set search_path = pg_catalog, pg_temp
as $$
  with recursive tree as (
    select id, 0 as depth from public.runs where id = p_run_id
    union all
    select r.id, tree.depth + 1 from public.runs as r join tree on r.parent_run_id = tree.id
  )
  select coalesce(array_agg(id order by depth, id), '{}') from tree
$$;

-- Cancels a run and all below it. Its worker can write nothing more. Returns false if it had ended.
create function private.cancel_run(p_run_id uuid, p_reason text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_tree uuid[];
  v_run_id uuid;
begin
  -- Looked at again after the lock: the run may just have started another.
  loop
    v_tree := private.tree_of_run(p_run_id);
    for n in reverse cardinality(v_tree)..1 loop
      perform from public.runs where id = v_tree[n] for no key update;
    end loop;
    exit when private.tree_of_run(p_run_id) <@ v_tree;
  end loop;
  perform from public.runs
  where id = p_run_id and status not in ('completed', 'failed', 'cancelled') for no key update;
  if not found then
    return false;
  end if;
  -- From above: a parent that is cancelled is not woken by the end of its parts.
  foreach v_run_id in array v_tree loop
    update public.runs set status = 'cancelled', waiting_call = null, attached = false, error = p_reason,
      error_code = 'cancelled', finished_at = now()
    where id = v_run_id and status not in ('completed', 'failed', 'cancelled');
    continue when not found;
    update public.tool_calls set status = 'refused', approved_by = null, reason = p_reason, decided_by = auth.uid(),
      decided_at = clock_timestamp()
    where run_id = v_run_id and status = 'pending';
    update public.tool_calls set status = 'failed', result = p_reason, code = 'cancelled', finished_at = clock_timestamp()
    where run_id = v_run_id and status = 'waiting';
    perform private.append_event(
      v_run_id,
      json_build_object('type', 'error', 'error', p_reason, 'code', 'cancelled', 'run_id', v_run_id));
    perform pg_notify('fieldmark_work', v_run_id::text);
  end loop;
  return true;
end $$;

-- Cancels the open runs of a user and their keys, or of one key. Not needed where the organisation is being deleted.
create function private.cancel_runs_of(p_org_id uuid, p_user_id uuid, p_reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_run_id uuid;
begin
  if exists (select from private.organisation_deletions where org_id = p_org_id) then
    return;
  end if;
  for v_run_id in
    select r.id from public.runs as r
    where r.org_id = p_org_id and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs')
      and r.created_by in (
        select p_user_id
        union all
        select k.id from public.api_keys as k where k.org_id = p_org_id and k.created_by = p_user_id)
    order by r.parent_run_id nulls first, r.id
  loop
    perform private.cancel_run(v_run_id, p_reason);
  end loop;
end $$;
