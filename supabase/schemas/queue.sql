-- The queue: triggers insert jobs in the transaction that creates the work.
--
-- Fair queueing (start-time): a job's priority is one below the organisation's last waiting job, or the current head of
-- the queue, so organisations alternate. No locks: two concurrent inserts may get the same priority, which is harmless.

-- Default limits of waiting documents and runs per organisation. `fieldmark migrate` writes them from the settings.
create table private.queue_defaults (
  is_singleton boolean primary key default true check (is_singleton),
  runs integer not null default 2000 check (runs >= 0),
  documents integer not null default 2000 check (documents >= 0)
);
insert into private.queue_defaults default values;

-- Limits of single organisations. Written by the database administrator only.
create table public.queue_limits (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  max_waiting_runs integer check (max_waiting_runs >= 0),
  max_waiting_documents integer check (max_waiting_documents >= 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);
select private.protect_table('public.queue_limits', p_members_read => true);

create index runs_queued on public.runs (org_id) where status = 'queued';
create index documents_reading on public.documents (org_id) where status = 'reading';

-- Security definer: also counts runs in other members' threads.
create function private.check_queue_limit(p_org_id uuid, p_table text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_limit integer;
  v_waiting bigint;
begin
  select case p_table
      when 'runs' then coalesce(l.max_waiting_runs, m.runs) else coalesce(l.max_waiting_documents, m.documents) end
  into v_limit
  from private.queue_defaults as m left join public.queue_limits as l on l.org_id = p_org_id;
  select count(*) into v_waiting
  from (
    select from public.runs where p_table = 'runs' and org_id = p_org_id and status = 'queued'
    union all
    select from public.documents where p_table = 'documents' and org_id = p_org_id and status = 'reading'
    limit v_limit + 1) as w;
  perform private.require(
    v_waiting = 0 or v_limit > 0,  -- a retry would not help
    format('The limit of waiting %s of this organisation is 0.', p_table),
    'PT409', 'queue_closed');
  perform private.require(
    v_waiting <= v_limit,
    format('The organisation already has %s waiting %s, the maximum. Try again when some are done.', v_limit, p_table),
    'PT429');
end $$;

create function private.check_queue_limits() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_queue_limit(org_id, tg_table_name) from (select distinct org_id from added) as o;
  return null;
end $$;

create trigger check_queue_limits after insert on public.runs
  referencing new table as added for each statement execute function private.check_queue_limits();
create trigger check_queue_limits after insert on public.documents
  referencing new table as added for each statement execute function private.check_queue_limits();

-- Tables and functions are procrastinate's. A job's lock starts with the organisation id.
create function private.enqueue(p_queue text, p_task text, p_args jsonb, p_lock text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  v_priority integer;
begin
  if to_regprocedure('queue.procrastinate_defer_jobs_v1(queue.procrastinate_job_to_defer_v1[])') is null then
    raise exception 'The job queue is not set up. Run `fieldmark migrate`.' using errcode = 'PT503';
  end if;
  v_priority := least(
    coalesce(
      (select priority from queue.procrastinate_jobs
        where queue_name = p_queue and status = 'doing' order by -priority desc limit 1),
      (select priority from queue.procrastinate_jobs
        where queue_name = p_queue and status = 'todo' order by -priority limit 1),
      0),
    (select priority - 1 from queue.procrastinate_jobs
      where queue_name = p_queue and left(lock, 36) = left(p_lock, 36) and status = 'todo'
      order by 0 - priority desc limit 1));
  perform queue.procrastinate_defer_jobs_v1(
    array[row(p_queue, p_task, v_priority, p_lock, null, p_args, null)::queue.procrastinate_job_to_defer_v1]);
end $$;

-- Records how far a document is read, and notifies watchers of runs that wait for it.
create function private.record_reading(p_document_id uuid, p_pages_read integer, p_pages_to_read integer) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  update public.documents set pages_read = p_pages_read, pages_to_read = p_pages_to_read
  where id = p_document_id and status = 'reading';
  if found then
    perform pg_notify('fieldmark_run_events', id::text)
    from public.runs where document_id = p_document_id and status = 'queued';
  end if;
end $$;

-- Claims the next job of a queue for a worker. If all its p_slots are taken, one more is for an organisation
-- without a running job. The plan is forced, because the planner's statistics are of empty tables; each order
-- matches exactly one index.
create function private.claim_job(p_queue text, p_worker_id bigint, p_slots integer)
returns table (
  id bigint, status text, task_name text, priority integer, lock text, queueing_lock text, args jsonb,
  scheduled_at timestamptz, queue_name text, attempts integer, worker_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  v_running text[] := array(
    select left(j.lock, 36) from queue.procrastinate_jobs as j
    where j.worker_id = p_worker_id and j.status = 'doing');
  v_org text := '';
begin
  if cardinality(v_running) > p_slots then
    return;
  elsif cardinality(v_running) < p_slots then
    v_running := '{}';
  end if;
  -- Whether another organisation waits: one step per active organisation, however many jobs wait.
  while v_org = any (v_running) or v_org = '' loop
    v_org := (
      select left(j.lock, 36) from queue.procrastinate_jobs as j
      where j.queue_name = p_queue and j.status = 'todo' and left(j.lock, 36) > v_org
      order by left(j.lock, 36) limit 1);
  end loop;
  if v_org is null then
    return;
  end if;
  return query
    update queue.procrastinate_jobs as taken set status = 'doing', worker_id = p_worker_id
    where taken.id = (
      select j.id from queue.procrastinate_jobs as j
      where j.queue_name = p_queue and j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= now())
        and left(j.lock, 36) <> all (v_running)
        and not exists (
          select from queue.procrastinate_jobs as other where other.lock = j.lock and other.status = 'doing')
        and j.id = (
          select first.id from queue.procrastinate_jobs as first
          where first.lock = j.lock and first.status = 'todo' order by -first.priority, first.id limit 1)
      order by -j.priority, j.id limit 1 for update skip locked)
    returning taken.id, taken.status::text, taken.task_name::text, taken.priority, taken.lock,
      taken.queueing_lock, taken.args, taken.scheduled_at, taken.queue_name::text, taken.attempts, taken.worker_id;
end $$;

create function private.enqueue_execution(p_run public.runs) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform private.enqueue(
    case when p_run.background then 'background' else 'runs' end, 'execute_run',
    jsonb_build_object('run_id', p_run.id), p_run.lock_key);
end $$;

-- Security definer, like the functions below: the writer of a row may have no privileges on the queue.
create function private.enqueue_reading() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.enqueue(
    'documents', 'read_document', jsonb_build_object('document_id', new.id), new.org_id || '/document/' || new.id);
  return null;
end $$;

-- Queues a document to be read from a decrypted copy. Returns whether it was waiting for its password.
create function private.queue_unlocked_copy(p_document_id uuid, p_unlocked_path text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
begin
  update public.documents set status = 'reading', error = null, error_code = null, unlocked_path = p_unlocked_path,
    pages_read = null, pages_to_read = null
  where id = p_document_id and status = 'failed' and error_code = 'password'
    and org_id in (select private.my_writable_org_ids()) and private.is_service()
  returning org_id into v_org;
  if v_org is not null then
    perform private.check_queue_limit(v_org, 'documents');
  end if;
  return v_org is not null;
end $$;

-- A new run waits until its document is read. A run without a document, or one queued again, starts at once.
create function private.enqueue_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_document public.documents;
begin
  if new.document_id is null or tg_op = 'UPDATE' then
    perform private.enqueue_execution(new);
    return null;
  end if;
  -- The share lock decides the race with a reading that ends now: one of the two transactions sees the other.
  select * into v_document from public.documents where id = new.document_id for share;
  perform private.require(v_document.status is distinct from 'failed', v_document.error, 'PT409', 'document_failed');
  if v_document.status = 'ready' then
    perform private.enqueue_execution(new);
  end if;
  return null;
end $$;

create function private.release_waiting_runs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  for v_run in
    select * from public.runs where document_id = new.id and status = 'queued' order by created_at, id
  loop
    if new.status = 'ready' then
      perform private.enqueue_execution(v_run);
    else
      perform private.fail_run(v_run.id, new.error, 'document_failed');
    end if;
  end loop;
  return null;
end $$;

create trigger enqueue_reading after insert on public.documents
  for each row when (new.status = 'reading') execute function private.enqueue_reading();
create trigger enqueue_reading_again after update of status on public.documents
  for each row when (old.status <> 'reading' and new.status = 'reading') execute function private.enqueue_reading();
create trigger release_waiting_runs after update of status on public.documents
  for each row when (old.status = 'reading' and new.status <> 'reading') execute function private.release_waiting_runs();
create trigger enqueue_run after insert on public.runs
  for each row when (new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_again after update of status on public.runs
  for each row when (old.status <> 'queued' and new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_released after update of waiting_for_capacity_since on public.runs
  for each row when (old.waiting_for_capacity_since is not null and new.waiting_for_capacity_since is null and old.status = 'queued' and new.status = 'queued')
  execute function private.enqueue_run();
