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

-- Deleted organisations: what workers still have to delete, and afterwards the proof of what they deleted. It has no
-- foreign key, because it outlives the organisation.
create table private.organisation_deletions (
  org_id uuid primary key,
  asked_by uuid,
  asked_at timestamptz not null default now(),
  -- The number of its rows by table: when the deletion started, and when it ended ({}: no row).
  rows_found jsonb,
  rows_left jsonb,
  files_deleted bigint not null default 0,
  finished_at timestamptz
);
create index organisation_deletions_open on private.organisation_deletions (asked_at, org_id) where finished_at is null;
select private.protect_table('private.organisation_deletions');

-- Makes an organisation invisible at once; workers delete its rows in batches.
create function private.start_deletion(p_org_id uuid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- A user who accepts an invitation or creates a key in it waits for this row.
  perform from public.organisations where id = p_org_id for no key update;
  insert into private.organisation_deletions (org_id, asked_by) values (p_org_id, auth.uid()) on conflict do nothing;
  update public.organisations set personal_of = null where id = p_org_id;
  delete from public.memberships where org_id = p_org_id;
end $$;

-- Deletes an organisation of which the caller is an owner.
create function public.delete_organisation(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(
    p_org_id in (select private.my_owned_org_ids()), 'Organisation not found, or you are not an owner.', 'PT404');
  perform private.current_user_id();
  -- A personal organisation is created again: repeated deletion would multiply a user's share of the queue.
  perform private.require(
    (select count(*) from private.organisation_deletions where asked_by = auth.uid() and finished_at is null) < 20,
    '20 of your organisations are still being deleted. Try again in a few minutes.',
    'PT409', 'too_many');
  perform private.start_deletion(p_org_id);
end $$;

-- Returns what was deleted of an organisation that the caller deleted. Null: the caller deleted no such organisation.
create function public.deleted_organisation(p_org_id uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object(
    'org_id', org_id, 'asked_at', asked_at, 'finished_at', finished_at, 'rows_found', rows_found,
    'rows_left', rows_left, 'files_deleted', files_deleted,
    'files_left', (select count(*) from private.files_to_delete as f where f.org_id = d.org_id))
  from private.organisation_deletions as d
  where org_id = p_org_id and asked_by = auth.uid()
$$;

-- Counts an organisation's rows in every table of the catalogue, so that a new table is not forgotten. (Not in the
-- record of the deletion, and in the queue of files, which is counted apart.) A table without an index that begins with
-- the organisation is counted by the parents of its rows: it may have millions of other organisations.
create function private.count_rows_of_organisation(p_org_id uuid, p_number integer) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_counts jsonb := jsonb_build_object();
  v_table text;
  v_column text;
  v_parent text;
  v_count bigint;
begin
  for v_table, v_column, v_parent in
    select c.oid::regclass::text, a.attname::text, (
      select format('%I in (select id from %s where org_id = %L)', k.attname, f.confrelid::regclass, p_org_id)
      from pg_constraint as f join pg_attribute as k on k.attrelid = c.oid and k.attnum = f.conkey[1]
      where f.conrelid = c.oid and f.contype = 'f' and a.attnum = any (f.conkey[2:]) and k.attnotnull
        and not exists (
          select from pg_index as i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null)
      limit 1)
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid and not a.attisdropped
      and (a.attname in ('org_id', 'org_number') or (c.oid = 'public.organisations'::regclass and a.attname = 'id'))
    where c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
      and c.oid not in ('private.organisation_deletions'::regclass, 'private.files_to_delete'::regclass)
    order by 1
  loop
    execute format('select count(*) from %s where %s', v_table, coalesce(v_parent, format('%I = %L', v_column,
      case v_column when 'org_number' then p_number::text else p_org_id::text end))) into v_count;
    if v_count > 0 then
      v_counts := v_counts || jsonb_build_object(v_table, v_count);
    end if;
  end loop;
  return v_counts;
end $$;

-- Deletes a batch of rows of a deleted organisation, children first, so that no foreign key has to cascade.
create function private.clear_organisations(p_rows integer default 2000) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := (
    select org_id from private.organisation_deletions where finished_at is null order by asked_at, org_id limit 1);
  v_number integer := (select number from private.search_orgs where org_id = v_org);
  v_runs uuid[];
  v_documents uuid[];
  v_table regclass;
  v_rows text;
  v_gone integer;
begin
  if v_org is null or not private.lock_maintenance_task('organisations') then
    return 0;
  end if;
  update private.organisation_deletions set rows_found = private.count_rows_of_organisation(v_org, v_number)
  where org_id = v_org and rows_found is null;
  if found then
    return 1;
  end if;
  v_runs := array(select id from public.runs where org_id = v_org order by created_at desc, id desc limit 50);
  v_documents := array(select id from public.documents where org_id = v_org order by created_at desc, id desc limit 20);
  -- The triggers of the queue's tables use unqualified names.
  perform set_config('search_path', 'pg_catalog, queue, pg_temp', true);
  for v_table, v_rows in values
    ('public.run_events'::regclass, 'run_id = any ($3)'),
    ('public.tool_calls', 'run_id = any ($3)'),
    ('public.runs', 'id = any ($3)'),
    ('public.extraction_journal', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.fields', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.document_pages', 'document_id = any ($4)'),
    ('private.search_vectors', 'org_number = $5'),
    ('private.search_chunks', 'org_number = $5'),
    ('public.extractions', 'document_id = any ($4)'),
    ('public.documents', 'id = any ($4)'),
    ('public.webhook_deliveries', 'org_id = $1'),
    ('private.source_objects', 'source_id in (select id from public.sources where org_id = $1)'),
    ('public.source_failures', 'org_id = $1'),
    ('public.changes', 'org_id = $1'),
    ('public.agent_sessions', 'org_id = $1'),
    ('public.usage', 'org_id = $1'),
    ('public.threads', 'org_id = $1'),
    ('private.search_terms', 'org_number = $5'),
    -- (A job that runs finds no row, and is deleted when it ends.)
    ('queue.procrastinate_jobs', 'left(lock, 36) = $1::text and status <> ''doing'''),
    ('public.organisations', 'id = $1')
  loop
    execute format(
      'delete from %1$s where ctid = any (array(select ctid from %1$s where %2$s limit $2))', v_table, v_rows)
    using v_org, p_rows, v_runs, v_documents, v_number;
    get diagnostics v_gone = row_count;
    exit when v_gone > 0;
  end loop;
  if v_gone = 0 or v_table = 'public.organisations'::regclass then
    update private.organisation_deletions
    set rows_left = private.count_rows_of_organisation(v_org, v_number), finished_at = clock_timestamp()
    where org_id = v_org;
  end if;
  return 1;
end $$;

-- Deletes the caller's account: the organisations of which they are the only member, their memberships, threads that they
-- did not share, sources and address. What they wrote for other members stays, under an id that names no one. Returns
-- {table: rows}, with the ids of the deleted organisations.
create function public.delete_account() returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_addresses text[] := array[
    lower(auth.jwt() ->> 'email'), (select lower(email) from auth.users where id = v_user)];
  v_deleted jsonb;
  v_orgs uuid[];
begin
  -- Who accepts an invitation to one of them becomes a member before, or waits and is refused.
  perform from public.organisations
  where id in (select org_id from public.memberships where user_id = v_user and role = 'owner') order by id for no key update;
  v_orgs := array(
    select m.org_id from public.memberships as m where m.user_id = v_user and m.role = 'owner' and not exists (
      select from public.memberships as other where other.org_id = m.org_id and other.user_id <> v_user));
  perform private.start_deletion(org_id) from unnest(v_orgs) as org_id;
  -- (The trigger refuses the last owner of an organisation with other members.)
  with removed as (delete from public.memberships where user_id = v_user returning 1)
    select jsonb_build_object('organisations', to_jsonb(v_orgs), 'memberships', count(*)) into v_deleted from removed;
  with removed as (delete from public.threads where created_by = v_user and not shared returning 1)
    select v_deleted || jsonb_build_object('threads', count(*)) into v_deleted from removed;
  with removed as (delete from public.sources where created_by = v_user returning 1)
    select v_deleted || jsonb_build_object('sources', count(*)) into v_deleted from removed;
  -- Without its address an invitation would be for everyone who has the link.
  with changed as (
    update public.invitations set email = null, revoked_at = coalesce(revoked_at, case when accepted_at is null then now() end),
      revoked_by = case when accepted_at is null and revoked_at is null then v_user else revoked_by end
    where lower(email) = any (v_addresses) returning 1)
    select v_deleted || jsonb_build_object('invitations', count(*)) into v_deleted from changed;
  delete from auth.users where id = v_user;
  return v_deleted;
end $$;
