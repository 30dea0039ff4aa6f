-- Retention: workers delete old rows and deleted organisations of all tenants, in batches.
--
-- Each function deletes one batch in its own transaction and returns the count; the worker repeats it until
-- 0. With nothing to delete, a call reads the start of an index.

-- The progress of each task, in the order in which runs ended. The worker on a task locks its row.
create table private.maintenance (
  task text primary key,
  finished_at timestamptz not null default '-infinity',
  run_id uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into private.maintenance (task) values ('runs'), ('organisations'), ('changes');

create index runs_finished_at on public.runs (finished_at, id) where finished_at is not null;

create function private.lock_maintenance_task(p_task text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from private.maintenance where task = p_task for update skip locked;
  return found;
end $$;

-- Deletes events and calls of runs that ended before this interval, oldest first. Runs in threads are kept. At least
-- one hour is kept: a run may commit later than its `finished_at`.
create function private.delete_old_run_records(p_keep interval) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan as $$
declare
  v_before timestamptz := now() - greatest(p_keep, interval '1 hour');
  v_at private.maintenance;
  v_runs uuid[];
begin
  -- Checked twice: first without a lock, and so without a write; then with it.
  for n in 1..2 loop
    select * into v_at from private.maintenance where task = 'runs';
    v_runs := array(
      select id from public.runs
      where finished_at is not null and finished_at < v_before and (finished_at, id) > (v_at.finished_at, v_at.run_id)
        and p_keep is not null  -- greatest() would ignore null
      order by finished_at, id limit 50);
    if v_runs = '{}' or (n = 1 and not private.lock_maintenance_task('runs')) then
      return 0;
    end if;
  end loop;
  update private.maintenance as m set (finished_at, run_id) = (
    select r.finished_at, r.id from public.runs as r where r.id = v_runs[cardinality(v_runs)])
  where task = 'runs';
  delete from public.run_events where run_id in (
    select id from public.runs where id = any (v_runs) and root_thread_id is null);
  delete from public.tool_calls where run_id in (
    select id from public.runs where id = any (v_runs) and root_thread_id is null);
  return cardinality(v_runs);
end $$;

-- Deletes changes and their deliveries that are older than this, but for the newest of an organisation, after whose number
-- the next one is counted.
create function private.delete_old_changes(p_keep interval) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_gone integer;
begin
  delete from public.changes where id = any (array(
    select id from public.changes as c
    where created_at < now() - p_keep
      and exists (select from public.changes as later where later.org_id = c.org_id and later.number > c.number)
    order by created_at limit 500 for update skip locked));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

create table private.organisation_deletions (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  asked_by uuid,
  asked_at timestamptz not null default now()
);

-- Deletes an organisation: it is invisible at once, and workers delete its rows in batches.
create function public.delete_organisation(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(
    p_org_id in (select private.my_owned_org_ids()), 'Organisation not found, or you are not an owner.', 'PT404');
  perform private.current_user_id();
  -- A personal organisation is created again: repeated deletion would multiply a user's share of the queue.
  perform private.require(
    (select count(*) from private.organisation_deletions where asked_by = auth.uid()) < 20,
    '20 of your organisations are still being deleted. Try again in a few minutes.',
    'PT409', 'too_many');
  -- A user who accepts an invitation or creates a key in it waits for this row.
  perform from public.organisations where id = p_org_id for no key update;
  insert into private.organisation_deletions (org_id, asked_by) values (p_org_id, auth.uid()) on conflict do nothing;
  update public.organisations set personal_of = null where id = p_org_id;
  delete from public.memberships where org_id = p_org_id;
end $$;

-- Deletes a batch of rows of a deleted organisation, children first, so that no foreign key has to cascade.
create function private.clear_organisations(p_rows integer default 2000) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := (select org_id from private.organisation_deletions order by asked_at, org_id limit 1);
  v_runs uuid[];
  v_documents uuid[];
  v_table regclass;
  v_rows text;
  v_gone integer;
begin
  if v_org is null or not private.lock_maintenance_task('organisations') then
    return 0;
  end if;
  v_runs := array(select id from public.runs where org_id = v_org order by created_at desc, id desc limit 50);
  v_documents := array(select id from public.documents where org_id = v_org order by created_at desc, id desc limit 20);
  for v_table, v_rows in values
    ('public.run_events'::regclass, 'run_id = any ($3)'),
    ('public.tool_calls', 'run_id = any ($3)'),
    ('public.runs', 'id = any ($3)'),
    ('public.extraction_journal', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.fields', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.document_pages', 'document_id = any ($4)'),
    ('private.search_vectors',
      'org_number = (select number from private.search_orgs where org_id = $1) and document_id = any ($4)'),
    ('private.search_chunks', 'document_id = any ($4)'),
    ('public.extractions', 'document_id = any ($4)'),
    ('public.documents', 'id = any ($4)'),
    ('public.webhook_deliveries', 'org_id = $1'),
    ('private.source_objects', 'source_id in (select id from public.sources where org_id = $1)'),
    ('public.changes', 'org_id = $1'),
    ('public.agent_sessions', 'org_id = $1'),
    ('public.usage', 'org_id = $1'),
    ('public.threads', 'org_id = $1'),
    ('private.search_terms', 'org_number = (select number from private.search_orgs where org_id = $1)'),
    ('public.organisations', 'id = $1')
  loop
    execute format(
      'delete from %1$s where ctid = any (array(select ctid from %1$s where %2$s limit $2))', v_table, v_rows)
    using v_org, p_rows, v_runs, v_documents;
    get diagnostics v_gone = row_count;
    exit when v_gone > 0;
  end loop;
  return 1;
end $$;
