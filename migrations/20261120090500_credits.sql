-- Credits: what each of the model's messages cost, what an organisation may spend, and who may start because of it.

set local lock_timeout = '10s';
set local statement_timeout = '60s';

-- No foreign key to the run: what was spent stays spent when its document is deleted.
create table public.usage (
  run_id uuid not null,
  -- The id that the model's service gave its message: the same message is charged once.
  message_id text not null check (char_length(message_id) between 1 and 200),
  org_id uuid not null references public.organisations (id) on delete cascade,
  agent text not null,
  model text not null check (char_length(model) between 1 and 200),
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
  cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
  cache_read_tokens bigint not null check (cache_read_tokens >= 0),
  -- US dollars by our own price table; null where it does not know the model.
  cost_usd numeric(18, 10) check (cost_usd >= 0 and cost_usd < 1000000),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  primary key (run_id, message_id)
);
create index usage_org_id on public.usage (org_id, created_at) include (cost_usd);

-- Written by whoever runs the database, as its owner, and by nobody else. An organisation without a row has no limits,
-- and null is none either.
create table public.credit_limits (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  -- For a calendar month in UTC.
  max_usd numeric(18, 10) check (max_usd >= 0 and max_usd < 100000000),
  max_concurrent_runs integer check (max_concurrent_runs >= 1),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);

alter table public.usage enable row level security;
alter table public.usage force row level security;
alter table public.credit_limits enable row level security;
alter table public.credit_limits force row level security;

revoke all on public.usage, public.credit_limits from anon, authenticated;
grant select, insert (
  run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, cost_usd
) on public.usage to authenticated;
grant select on public.credit_limits to authenticated;

create policy "members read what their organisations used" on public.usage
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "the service charges what was used" on public.usage
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "members read their organisations' limits" on public.credit_limits
  for select to authenticated using (org_id in (select private.my_org_ids()));

-- What a run has cost: null where one of its messages has no price.
create function private.cost_of_run(p_run_id uuid) returns numeric
language sql stable set search_path = ''
as $$
  select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0) end
  from public.usage where run_id = p_run_id
$$;

create function private.usage_of_run(p_run_id uuid) returns jsonb
language sql stable set search_path = ''
as $$
  select jsonb_build_object(
    'turns', count(*), 'input_tokens', coalesce(sum(input_tokens), 0), 'output_tokens', coalesce(sum(output_tokens), 0),
    'cache_creation_input_tokens', coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens), 0),
    'cache_read_input_tokens', coalesce(sum(cache_read_tokens), 0))
  from public.usage where run_id = p_run_id
$$;

create function private.spent_this_month(p_org_id uuid) returns numeric
language sql stable set search_path = ''
as $$
  select coalesce(sum(cost_usd), 0) from public.usage
  where org_id = p_org_id and created_at >= date_trunc('month', now() at time zone 'utc') at time zone 'utc'
$$;

-- Who looks for room in an organisation, and who makes some, do so one after the other. Whoever takes this lock holds
-- the rows of the runs it changes already, never the other way round.
create function private.lock_credit(p_org_id uuid) returns void
language sql set search_path = ''
as $$ select pg_advisory_xact_lock(hashtextextended('credit/' || p_org_id::text, 0)) $$;

-- Where a run has left its room, or there may be more of it: the oldest run that is held goes back into the queue. One
-- that somebody is just changing is passed over: it is cancelled, and then makes room itself, or taken up, and then looks
-- for room itself. At the end of the transaction: see private.lock_credit.
create function private.make_room() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  v_org uuid := old.org_id;
begin
  perform private.lock_credit(v_org);
  update public.runs set held_at = null
  where id = (
      select id from public.runs
      where org_id = v_org and status = 'queued' and held_at is not null
      order by created_at, id limit 1 for no key update skip locked)
    and (select count(*) from public.runs where org_id = v_org and status = 'running') <
      coalesce((select max_concurrent_runs from public.credit_limits where org_id = v_org), 2147483647);
  return null;
end $$;

-- Asks for a run to be taken up, with `p_wanted` US dollars set aside for its first step (null: nobody knows the model's
-- price). The answer holds until the transaction ends:
--   granted         nothing stands against it, and the credit is set aside
--   held            other runs are at work instead; it is put into the queue again when one of them ends
--   out_of_credit, max_cost, model_unpriced   it cannot go on
-- Null for a run that has ended or is out of sight.
create function private.reserve(p_run_id uuid, p_wanted numeric) returns text
language plpgsql set search_path = ''
as $$
declare
  v_run public.runs;
  v_limits public.credit_limits;
  v_at_work bigint;
  v_set_aside numeric;
  v_left numeric;
begin
  select * into v_run from public.runs where id = p_run_id and status in ('queued', 'running') for no key update;
  if not found then
    return null;
  end if;
  if v_run.max_cost_usd is not null and p_wanted is null then
    return 'model_unpriced';
  elsif v_run.max_cost_usd <= private.cost_of_run(p_run_id) then
    return 'max_cost';
  end if;
  perform private.lock_credit(v_run.org_id);
  select * into v_limits from public.credit_limits where org_id = v_run.org_id;
  if v_limits.max_usd is not null and p_wanted is null then
    return 'model_unpriced';
  end if;
  select count(*), coalesce(sum(reserved_usd), 0) into v_at_work, v_set_aside
  from public.runs where org_id = v_run.org_id and status = 'running' and id <> p_run_id;
  v_left := v_limits.max_usd - private.spent_this_month(v_run.org_id);
  if v_left < p_wanted then
    return 'out_of_credit';
  end if;
  -- One that another worker has left behind has its place already.
  if v_run.status = 'running' then
    return 'granted';
  end if;
  -- An older run on the same extraction goes first, or a correction would come before what it corrects.
  if v_at_work >= v_limits.max_concurrent_runs or v_left - v_set_aside < p_wanted or exists (
    select from public.runs
    where extraction_id = v_run.extraction_id and status = 'queued'
      and (created_at, id) < (v_run.created_at, v_run.id)
  ) then
    update public.runs set held_at = now() where id = p_run_id;
    return 'held';
  end if;
  if v_limits.max_usd is not null then
    update public.runs set reserved_usd = p_wanted where id = p_run_id;
  end if;
  return 'granted';
end $$;

-- Charges one of the model's messages, and sets `p_wanted` US dollars aside for the next. Answers null, or why the run
-- cannot go on: max_cost, out_of_credit. What was used is recorded whatever became of the run.
create function private.charge(
  p_run_id uuid, p_org_id uuid, p_agent text, p_message_id text, p_model text, p_input_tokens bigint,
  p_output_tokens bigint, p_cache_write_5m_tokens bigint, p_cache_write_1h_tokens bigint, p_cache_read_tokens bigint,
  p_cost_usd numeric, p_wanted numeric
) returns text
language plpgsql set search_path = ''
as $$
declare
  v_run public.runs;
  v_max_usd numeric;
  v_set_aside numeric;
begin
  insert into public.usage (
    run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    cache_read_tokens, cost_usd)
  values (
    p_run_id, p_message_id, p_org_id, p_agent, p_model, p_input_tokens, p_output_tokens, p_cache_write_5m_tokens,
    p_cache_write_1h_tokens, p_cache_read_tokens, p_cost_usd)
  on conflict (run_id, message_id) do nothing;
  select * into v_run from public.runs where id = p_run_id and status = 'running';
  if not found then
    return null;  -- whoever ended it has said so
  elsif v_run.max_cost_usd <= private.cost_of_run(p_run_id) then
    return 'max_cost';
  end if;
  select max_usd into v_max_usd from public.credit_limits where org_id = p_org_id;
  if v_max_usd is null then
    return null;
  end if;
  perform from public.runs where id = p_run_id for no key update;
  perform private.lock_credit(p_org_id);
  select coalesce(sum(reserved_usd), 0) into v_set_aside
  from public.runs where org_id = p_org_id and status = 'running' and id <> p_run_id;
  -- A price that is not known counts as none to be had.
  if v_max_usd - private.spent_this_month(p_org_id) - v_set_aside >= p_wanted then
    update public.runs set reserved_usd = p_wanted where id = p_run_id;
    return null;
  end if;
  return 'out_of_credit';
end $$;

-- Starting counts too: where there was room for one, there may be for the next.
create constraint trigger make_room_when_status_changes after update of status on public.runs
  deferrable initially deferred for each row when (old.status in ('queued', 'running') and new.status <> old.status)
  execute function private.make_room();
create constraint trigger make_room_when_deleted after delete on public.runs
  deferrable initially deferred for each row when (old.status in ('queued', 'running'))
  execute function private.make_room();
create constraint trigger make_room_when_limits_change after update or delete on public.credit_limits
  deferrable initially deferred for each row
  execute function private.make_room();
create trigger enqueue_released after update of held_at on public.runs
  for each row when (old.held_at is not null and new.held_at is null and old.status = 'queued' and new.status = 'queued')
  execute function private.enqueue_again();

revoke execute on function
  private.cost_of_run(uuid), private.usage_of_run(uuid), private.spent_this_month(uuid), private.lock_credit(uuid),
  private.reserve(uuid, numeric), private.make_room(),
  private.charge(uuid, uuid, text, text, text, bigint, bigint, bigint, bigint, bigint, numeric, numeric)
  from public;
grant execute on function
  private.cost_of_run(uuid), private.usage_of_run(uuid), private.spent_this_month(uuid), private.lock_credit(uuid),
  private.reserve(uuid, numeric),
  private.charge(uuid, uuid, text, text, text, bigint, bigint, bigint, bigint, bigint, numeric, numeric)
  to authenticated;

do $$
declare
  v_table text;
begin
  if not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    foreach v_table in array array['usage', 'credit_limits'] loop
      execute format(
        'create policy "definer functions act as the owner" on public.%I to %I using (true) with check (true)',
        v_table, current_user);
    end loop;
  end if;
end $$;
