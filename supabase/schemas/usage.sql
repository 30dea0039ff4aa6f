-- Usage: the cost of each model message, and spending limits of organisations.

-- No foreign key to the run: usage is kept when a document is deleted.
create table public.usage (
  run_id uuid not null,
  -- The attempt (its fencing token), the number of the message in it, and the provider's message id, which proves
  -- nothing by itself. The same message is charged once.
  message_id text not null check (char_length(message_id) between 1 and 200),
  org_id uuid not null references public.organisations (id) on delete cascade,
  agent text not null,
  -- The run's task, and the schema of the table that it writes to. Null: none, or the run was already deleted.
  task text,
  schema_id uuid,
  -- Whether it is the first message of a run that reads a document.
  is_reading boolean not null default false,
  model text not null check (char_length(model) between 1 and 200),
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
  cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
  cache_read_tokens bigint not null check (cache_read_tokens >= 0),
  -- US dollars, by our price table; null for an unknown model.
  cost_usd numeric(18, 10) check (cost_usd >= 0 and cost_usd < 1000000),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  -- The root run, whose budget is charged. Kept when the run is deleted.
  root_run_id uuid not null,
  primary key (run_id, message_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
create index usage_org_id on public.usage (org_id);
create index usage_root_run_id on public.usage (root_run_id) include (run_id, cost_usd);
select private.protect_table('public.usage', p_members_read => true);
grant insert (
  run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, cost_usd
) on public.usage to authenticated;

create policy "the service charges what was used" on public.usage
  for insert to authenticated with check (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Fills in what the run is about. For a deleted run: as in its earlier messages.
create function private.fill_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_earlier record;
  v_run record;
begin
  select root_run_id, task, schema_id into v_earlier
  from public.usage where run_id = new.run_id and org_id = new.org_id limit 1;
  new.is_reading := not found;
  select r.root_run_id, r.task, coalesce(v.schema_id, t.schema_id) as schema_id,
    r.document_id is not null and not k.is_message as is_reading into v_run
  from public.runs as r
  join private.agent_tasks as k on k.agent = r.agent and k.task = r.task
  left join public.extractions as e on e.id = r.extraction_id
  left join public.schema_versions as v on v.id = e.schema_revid
  left join public.stack_tables as t on t.stack_id = r.stack_id
  where r.id = new.run_id and r.org_id = new.org_id;
  new.is_reading := new.is_reading and coalesce(v_run.is_reading, false);
  if not found then
    v_run := v_earlier;
  end if;
  new.root_run_id := coalesce(v_run.root_run_id, new.run_id);
  new.task := v_run.task;
  new.schema_id := v_run.schema_id;
  return new;
end $$;

create trigger fill_usage before insert on public.usage for each row execute function private.fill_usage();

-- Usage by day (UTC), agent, task, table and model, summed while charging, so that no query has to sum messages.
create table public.usage_by_day (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  day date not null,
  agent text not null,
  task text,
  schema_id uuid,
  model text not null,
  -- A day has several rows, so that concurrent charges do not wait for each other.
  slot integer not null check (slot between 0 and 7),
  -- A document that is read again counts again.
  documents_read bigint not null,
  messages bigint not null,
  unpriced bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_tokens bigint not null,
  cache_read_tokens bigint not null,
  cost_usd numeric not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  unique nulls not distinct (org_id, day, agent, task, schema_id, model, slot)
) with (fillfactor = 50);
select private.protect_table('public.usage_by_day', p_members_read => true);

create function private.add_up_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.usage_by_day as d (
    org_id, day, agent, task, schema_id, model, slot, documents_read, messages, unpriced, input_tokens, output_tokens, cache_write_tokens,
    cache_read_tokens, cost_usd)
  values (
    new.org_id, (new.created_at at time zone 'utc')::date, new.agent, new.task, new.schema_id, new.model,
    pg_backend_pid() % 8, new.is_reading::integer, 1, (new.cost_usd is null)::integer, new.input_tokens, new.output_tokens,
    new.cache_write_5m_tokens + new.cache_write_1h_tokens, new.cache_read_tokens, coalesce(new.cost_usd, 0))
  on conflict (org_id, day, agent, task, schema_id, model, slot) do update set
    documents_read = d.documents_read + excluded.documents_read, messages = d.messages + excluded.messages, unpriced = d.unpriced + excluded.unpriced,
    input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
    cache_write_tokens = d.cache_write_tokens + excluded.cache_write_tokens,
    cache_read_tokens = d.cache_read_tokens + excluded.cache_read_tokens, cost_usd = d.cost_usd + excluded.cost_usd;
  return null;
end $$;

create trigger add_up_usage after insert on public.usage for each row execute function private.add_up_usage();

-- Written by the database administrator only. Null: no limit.
create table public.credit_limits (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  -- Per calendar month (UTC).
  max_usd numeric(18, 10) check (max_usd >= 0 and max_usd < 100000000),
  max_concurrent_runs integer check (max_concurrent_runs >= 1),
  -- Of stored documents (quotas.sql).
  max_documents bigint check (max_documents >= 0),
  max_bytes bigint check (max_bytes >= 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);
select private.protect_table('public.credit_limits', p_members_read => true);

-- The cost of a run and all runs below it; null if a message has no price. Deleted children count for the root.
create function private.cost_of_run(p_run_id uuid) returns numeric
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive of_root as materialized (
    select cost_usd from public.usage where root_run_id = p_run_id
  ), tree as (
    select p_run_id as id where not exists (select from of_root)
    union all
    select r.id from public.runs as r join tree on r.parent_run_id = tree.id
  )
  select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0) end
  from (
    select cost_usd from of_root
    union all
    select u.cost_usd from tree join public.usage as u on u.run_id = tree.id
  ) as message
$$;

create function private.spent_this_month(p_org_id uuid) returns numeric
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(sum(cost_usd), 0) from public.usage_by_day
  where org_id = p_org_id and day >= date_trunc('month', now() at time zone 'utc')::date
$$;
