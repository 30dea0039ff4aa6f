-- The queue: triggers put jobs there, in the transaction that makes the work.

-- The tables are procrastinate's, made by `fieldmark migrate`. Its functions name them without their schema.
create function private.enqueue(p_queue text, p_task text, p_args jsonb, p_lock text) returns void
language plpgsql security definer set search_path = pg_catalog, queue, pg_temp
as $$
begin
  if to_regprocedure('queue.procrastinate_defer_jobs_v1(queue.procrastinate_job_to_defer_v1[])') is null then
    raise exception 'The job queue is not set up: run `fieldmark migrate` once.' using errcode = 'PT503';
  end if;
  perform queue.procrastinate_defer_jobs_v1(
    array[row(p_queue, p_task, 0, p_lock, null, p_args, null)::queue.procrastinate_job_to_defer_v1]);
end $$;

-- The lock: runs with one lock key are executed one at a time, in their order.
create function private.enqueue_execution(p_run public.runs) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.enqueue(
    case when p_run.background then 'background' else 'runs' end, 'execute_run',
    jsonb_build_object('run_id', p_run.id), p_run.lock_key);
end $$;

-- Security definer, all that follow: whoever writes a row may have no right on the queue.
create function private.enqueue_reading() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.enqueue(
    'documents', 'read_document', jsonb_build_object('document_id', new.id), new.org_id || '/document/' || new.id);
  return null;
end $$;

-- A run waits until its document is read. One without a document waits for nothing.
create function private.enqueue_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
begin
  if new.document_id is null then
    perform private.enqueue_execution(new);
    return null;
  end if;
  -- The share lock settles the race with the reading that ends just now: either this run is seen by it, or it by this.
  select * into v_document from public.documents where id = new.document_id for share;
  if v_document.status = 'failed' then
    raise exception '%', v_document.error using errcode = 'PT409';
  end if;
  if v_document.status = 'ready' then
    perform private.enqueue_execution(new);
  end if;
  return null;
end $$;

-- The document is read, or cannot be: the runs that wait for it begin, or fail.
create function private.release_waiting_runs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
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
  perform pg_notify('fieldmark_documents', new.id::text);
  return null;
end $$;

create function private.enqueue_again() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.enqueue_execution(new);
  return null;
end $$;

create trigger enqueue_reading after insert on public.documents
  for each row when (new.status = 'reading') execute function private.enqueue_reading();
create trigger release_waiting_runs after update of status on public.documents
  for each row when (old.status = 'reading' and new.status <> 'reading') execute function private.release_waiting_runs();
create trigger enqueue_run after insert on public.runs
  for each row when (new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_again after update of status on public.runs
  for each row when (old.status <> 'queued' and new.status = 'queued') execute function private.enqueue_again();
create trigger enqueue_released after update of held_at on public.runs
  for each row when (old.held_at is not null and new.held_at is null and old.status = 'queued' and new.status = 'queued')
  execute function private.enqueue_again();

revoke execute on all functions in schema private from public;
