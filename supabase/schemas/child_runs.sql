-- Child runs: a call starts runs and waits for them without a worker. Cancelling a run cancels its child runs.
--
-- Lock order: children before parents, because a run that ends locks its parent after itself.

create function private.has_open_children(p_run_id uuid, p_call_id text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.runs
    where parent_run_id = p_run_id and parent_call_id = p_call_id
      and status not in ('completed', 'failed', 'cancelled'))
$$;

-- If no child run is open and no CLI is attached, the run is queued; otherwise private.detach_run does that later.
create function private.await_runs(p_run_id uuid, p_call_id text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_attached boolean;
begin
  select attached or status = 'running' into v_attached from public.runs
  where id = p_run_id and status in ('running', 'awaiting_approval') for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
  update public.tool_calls set status = 'waiting' where run_id = p_run_id and id = p_call_id and status = 'approved';
  perform private.require(found, 'This call cannot run: it was not approved, or it has already finished.', 'PT409');
  update public.runs set
    status = case when v_attached or private.has_open_children(p_run_id, p_call_id) then 'awaiting_runs' else 'queued' end,
    waiting_call = p_call_id, attached = v_attached, consecutive_failures = 0
  where id = p_run_id;
  if v_attached then
    perform pg_notify('fieldmark_work', p_run_id::text);
  end if;
end $$;

-- Queues the parent run again when the last child run of its call ends, and reports the progress of a stack's run.
-- Security definer: the caller may have no rights on the parent run.
create function private.wake_parent() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- Locked first: if two children end at the same time, the second one sees the first.
  perform from public.runs where id = old.parent_run_id for no key update;
  perform private.append_event(parent.id, json_build_object(
      'type', 'progress', 'call_id', old.parent_call_id, 'done', count(*) filter (where child.status = 'completed'),
      'failed', count(*) filter (where child.status in ('failed', 'cancelled')),
      'left', count(*) filter (where child.status not in ('completed', 'failed', 'cancelled')),
      'cost', private.cost_of_run(parent.id)))
  from public.runs as parent
  join public.runs as child on child.parent_run_id = parent.id and child.parent_call_id = old.parent_call_id
  where parent.id = old.parent_run_id and parent.stack_id is not null and parent.status = 'awaiting_runs'
  group by parent.id;
  update public.runs set status = 'queued'
  where id = old.parent_run_id and status = 'awaiting_runs' and waiting_call = old.parent_call_id and not attached
    and not private.has_open_children(old.parent_run_id, old.parent_call_id);
  return null;
end $$;

create trigger wake_parent_of_ended after update of status on public.runs for each row when (
    old.parent_run_id is not null and new.status in ('completed', 'failed', 'cancelled') and new.status <> old.status)
  execute function private.wake_parent();
create trigger wake_parent_of_deleted after delete on public.runs for each row when (
    old.parent_run_id is not null and old.status not in ('completed', 'failed', 'cancelled'))
  execute function private.wake_parent();

create function private.tree_of_run(p_run_id uuid) returns uuid[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive tree as (
    select id, 0 as depth from public.runs where id = p_run_id
    union all
    select r.id, tree.depth + 1 from public.runs as r join tree on r.parent_run_id = tree.id
  )
  select coalesce(array_agg(id order by depth, id), '{}') from tree
$$;

-- Cancels a run and all runs below it. Their workers can no longer write. Returns false if the run had already ended.
create function private.cancel_run(p_run_id uuid, p_reason text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_tree uuid[];
  v_run_id uuid;
begin
  -- Repeated after locking: a run may have started another child in between.
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
  -- Parents first: a cancelled parent is not woken when its children end.
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
      json_build_object(
        'type', 'error', 'error', p_reason, 'code', 'cancelled', 'run_id', v_run_id, 'text', p_reason));
    perform pg_notify('fieldmark_work', v_run_id::text);
  end loop;
  return true;
end $$;

-- Cancels the open runs of a user and their keys, or of one key. Does nothing if the organisation is being deleted.
create function private.cancel_runs_of(p_org_id uuid, p_user_id uuid, p_reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from private.organisation_deletions where org_id = p_org_id) then
    return;
  end if;
  perform private.cancel_run(id, p_reason)
  from (
    select r.id from public.runs as r
    where r.org_id = p_org_id and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs')
      and r.created_by in (
        select p_user_id
        union all
        select k.id from public.api_keys as k where k.org_id = p_org_id and k.created_by = p_user_id)
    order by r.parent_run_id nulls first, r.id) as open_run;
end $$;
