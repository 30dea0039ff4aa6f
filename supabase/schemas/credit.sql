-- Credit: decides which runs may start, by lock key, budget and the organisation's limits.

-- Locks the organisation's row, so that runs start and end one by one. Taken after locks on runs.
create function private.lock_credit(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if p_org_id in (select private.my_writable_org_ids()) and private.is_service() then
    perform from public.organisations where id = p_org_id for no key update;
  end if;
end $$;

-- Security definer: also counts runs in other members' threads.
create function private.count_active_runs(p_org_id uuid, p_run_id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from public.runs as r
  where r.org_id = p_org_id and r.status = 'running' and r.id <> p_run_id
    and p_org_id in (select private.my_org_ids())
$$;

-- Runs with the same lock key that come first: the running one, older queued ones, and in a thread or on a stack an
-- older one that waits for a decision or for child runs.
create function private.runs_ahead(p_run public.runs) returns setof public.runs
language sql stable set search_path = pg_catalog, pg_temp as $$
  select r.* from public.runs as r
  where r.lock_key = p_run.lock_key and r.id <> p_run.id
    and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs')
    and (
      r.status = 'running'
      or (r.created_at, r.id) < (p_run.created_at, p_run.id)
        and (r.status = 'queued' or r.root_run_id <> p_run.root_run_id
          and (r.thread_id = p_run.thread_id or r.stack_id = p_run.stack_id)))
$$;

-- Security definer: the blocking run may be invisible to the caller.
create function private.is_blocked(p_run public.runs) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select exists (select from private.runs_ahead(p_run)) $$;

-- Returns the run directly before a queued run, if the caller can see it; otherwise null.
create function private.waits_behind(p_run public.runs) returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select r.id from private.runs_ahead(p_run) as r
  where p_run.status = 'queued'
  order by (r.created_at, r.id) < (p_run.created_at, p_run.id) desc, r.created_at desc, r.id desc limit 1
$$;

-- Whether the budget of the run or of its root run is used up. Null if neither has a budget.
create function private.is_budget_spent(p_run public.runs) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select bool_or(coalesce(r.max_cost_usd <= private.cost_of_run(r.id), false)) from public.runs as r
  where r.id in (p_run.id, p_run.root_run_id) and r.max_cost_usd is not null
$$;

-- Queues the oldest unblocked run that waits for capacity, if there is capacity.
create function private.queue_held_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := old.org_id;
begin
  perform from public.organisations where id = v_org for no key update;
  update public.runs set waiting_for_capacity_since = null
  where id = (
      select r.id from public.runs as r
      where r.org_id = v_org and r.status = 'queued' and r.waiting_for_capacity_since is not null and not private.is_blocked(r)
      order by r.created_at, r.id limit 1 for no key update skip locked)
    and (select count(*) from public.runs where org_id = v_org and status = 'running') <
      coalesce((select max_concurrent_runs from public.credit_limits where org_id = v_org), 2147483647);
  return null;
end $$;

create function private.is_credit_spent(p_org_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.credit_limits
    where org_id = p_org_id and max_usd is not null and private.spent_this_month(org_id) >= max_usd)
$$;

-- Decides whether a worker may start a run. `p_priced`: the model has a price. The result is valid in this transaction:
--   granted         the run may start
--   held            the organisation has no capacity; the run is queued again when another run ends
--   out_of_credit, max_cost, model_unpriced   the run must fail with this code
-- Null if the run has ended or is not visible.
create function private.check_capacity(p_run_id uuid, p_priced boolean) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
  v_limits public.credit_limits;
  v_spent boolean;
  v_collects boolean;
begin
  select * into v_run from public.runs where id = p_run_id and status in ('queued', 'running') for no key update;
  if not found then
    return null;
  end if;
  v_spent := private.is_budget_spent(v_run);
  -- It collects the results of its child runs, which costs nothing. The worker asks again before it calls the model.
  v_collects := v_run.status = 'queued' and exists (
    select from public.tool_calls where run_id = v_run.id and id = v_run.waiting_call and status = 'waiting');
  perform private.lock_credit(v_run.org_id);
  select * into v_limits from public.credit_limits where org_id = v_run.org_id;
  if not p_priced and (v_spent is not null or v_limits.max_usd is not null) then
    return 'model_unpriced';
  elsif v_spent and not v_collects then
    return 'max_cost';
  elsif not v_collects and private.is_credit_spent(v_run.org_id) then
    return 'out_of_credit';
  -- A run taken over from a dead worker already counts as active.
  elsif v_run.status = 'running' then
    return 'granted';
  elsif private.count_active_runs(v_run.org_id, p_run_id) >= v_limits.max_concurrent_runs or private.is_blocked(v_run) then
    update public.runs set waiting_for_capacity_since = now() where id = p_run_id;
    return 'held';
  end if;
  return 'granted';
end $$;

-- Charges one model message. Returns null, or why the run must stop (max_cost, out_of_credit). It takes
-- no lock on the organisation: parallel runs may exceed its limit by the messages in progress.
create function private.charge(
  p_run_id uuid, p_org_id uuid, p_agent text, p_message_id text, p_model text, p_input_tokens bigint,
  p_output_tokens bigint, p_cache_write_5m_tokens bigint, p_cache_write_1h_tokens bigint, p_cache_read_tokens bigint,
  p_cost_usd numeric
) returns text language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  insert into public.usage (
    run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    cache_read_tokens, cost_usd)
  values (
    p_run_id, p_message_id, p_org_id, p_agent, p_model, p_input_tokens, p_output_tokens, p_cache_write_5m_tokens,
    p_cache_write_1h_tokens, p_cache_read_tokens, p_cost_usd) on conflict (run_id, message_id) do nothing;
  select * into v_run from public.runs where id = p_run_id and status = 'running';
  return case
    when not found then null  -- the run was ended elsewhere
    when private.is_budget_spent(v_run) then 'max_cost'
    when private.is_credit_spent(p_org_id) then 'out_of_credit'
  end;
end $$;

-- Also when a run starts: there may be capacity for more than one.
create constraint trigger queue_held_run_when_status_changes after update of status on public.runs
  deferrable initially deferred for each row when (
    new.status <> old.status
    and (old.status in ('queued', 'running') or new.status in ('completed', 'failed', 'cancelled')))
  execute function private.queue_held_run();
create constraint trigger queue_held_run_when_deleted after delete on public.runs
  deferrable initially deferred for each row when (old.status not in ('completed', 'failed', 'cancelled'))
  execute function private.queue_held_run();
create constraint trigger queue_held_run_when_limits_change after update or delete on public.credit_limits
  deferrable initially deferred for each row execute function private.queue_held_run();
