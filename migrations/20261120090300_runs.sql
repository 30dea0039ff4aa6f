-- Runs: one agent at work on one thing, its events, its ledger of calls, and the triggers that put work into the queue.

set local lock_timeout = '10s';
set local statement_timeout = '60s';

create table public.runs (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  agent text not null default 'extraction' check (agent in ('extraction')),
  task text not null default 'extract' check (task in ('extract', 'correct')),
  document_id uuid not null,
  extraction_id uuid not null,
  -- What the person wrote: instructions of an extraction, the message of a correction.
  instructions text check (char_length(instructions) <= 20000),
  approval text not null default 'auto' check (approval in ('auto', 'ask')),
  auto_approved_tools text[] not null default '{}'
    check (cardinality(auto_approved_tools) <= 100 and octet_length(auto_approved_tools::text) <= 10000),
  model text check (char_length(model) between 1 and 200),
  -- NaN counts as greater than every number: without the upper bound it would be a budget without end.
  max_cost_usd numeric(12, 6) check (max_cost_usd > 0 and max_cost_usd < 1000000),
  -- Fewer than the service allows; more are not had.
  max_turns integer check (max_turns between 1 and 1000),
  -- Part of a batch: it has workers of its own, so that it never keeps a person waiting.
  background boolean not null default false,
  idempotency_key text check (char_length(idempotency_key) between 1 and 200),
  status text not null default 'queued'
    check (status in ('queued', 'running', 'awaiting_approval', 'completed', 'failed', 'cancelled')),
  -- The fence: rises each time a worker takes the run; a worker of a lower attempt can write nothing more.
  attempt integer not null default 0,
  -- How often in a row it was taken up without getting a call done.
  tries integer not null default 0,
  -- The conversation that the run is led in, and the call that it waits for, or was resumed for.
  session_id uuid,
  waiting_call text,
  -- The pages that it was shown to their end. (Reads are not in the ledger of calls, which has a write or nothing to keep.)
  pages_read int4multirange not null default '{}',
  -- While it is queued: since when it waits for another run of its organisation to end. While it is at work: how much of
  -- the organisation's credit is set aside for its next step.
  held_at timestamptz,
  reserved_usd numeric(18, 10) not null default 0 check (reserved_usd >= 0 and reserved_usd < 1000000),
  started_at timestamptz,
  finished_at timestamptz,
  answer text,
  error text,
  error_code text,
  unique (id, org_id),
  unique (org_id, created_by, idempotency_key),
  check (status <> 'failed' or error is not null),
  check (error is null or status in ('failed', 'cancelled')),
  check (status <> 'awaiting_approval' or waiting_call is not null),
  foreign key (extraction_id, document_id, org_id)
    references public.extractions (id, document_id, org_id) on delete cascade
);
create index runs_org_id on public.runs (org_id, created_at desc, id);
create index runs_extraction_id on public.runs (extraction_id);
create index runs_session_id on public.runs (session_id);
create index runs_inbox on public.runs (created_by, created_at desc) where status = 'awaiting_approval';
create index runs_at_work on public.runs (org_id) where status = 'running';
create index runs_held on public.runs (org_id, created_at) where held_at is not null;
create index runs_waiting_for_document on public.runs (document_id) where status = 'queued';

create table public.run_events (
  run_id uuid not null,
  -- 1, 2, 3 … without a gap, in the order of commit.
  number integer not null check (number > 0),
  org_id uuid not null,
  -- One flat object of the stream, as text: it is only ever passed on.
  body json not null check (json_typeof(body) = 'object'),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  primary key (run_id, number),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
);

create table public.tool_calls (
  run_id uuid not null,
  -- The model's own id of the tool call.
  id text not null check (char_length(id) between 1 and 200),
  org_id uuid not null,
  tool text not null,
  arguments jsonb not null,
  -- SHA-256 of the arguments' canonical JSON: what was admitted is what may run.
  arguments_hash text not null check (arguments_hash ~ '^[0-9a-f]{64}$'),
  status text not null check (status in ('pending', 'admitted', 'refused', 'done', 'failed')),
  -- Who let it pass, or why not.
  admitted_by text check (admitted_by in ('policy', 'person')),
  reason text,
  -- Which person decided a call that waited, and when; and what the agent had proposed, where the person changed it.
  decided_by uuid,
  decided_at timestamptz,
  proposed jsonb,
  -- The tool's answer to the model, repeated word for word if the call comes again.
  result text,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  primary key (run_id, id),
  check ((status in ('pending', 'refused')) = (admitted_by is null)),
  check ((status in ('done', 'failed')) = (result is not null)),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
);

alter table public.runs enable row level security;
alter table public.runs force row level security;
alter table public.run_events enable row level security;
alter table public.run_events force row level security;
alter table public.tool_calls enable row level security;
alter table public.tool_calls force row level security;

revoke all on public.runs, public.run_events, public.tool_calls from anon, authenticated;
-- A front end may start a run by inserting it; every column that tells of its course is the service's.
grant select, insert (
  id, org_id, agent, task, document_id, extraction_id, instructions, approval, auto_approved_tools, model, max_cost_usd,
  idempotency_key, background, max_turns
) on public.runs to authenticated;
grant update (
  status, attempt, tries, session_id, waiting_call, pages_read, held_at, reserved_usd, started_at, finished_at, answer,
  error, error_code
) on public.runs to authenticated;
grant select, insert (run_id, number, org_id, body) on public.run_events to authenticated;
grant select, insert (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, reason),
  update (
    status, result, finished_at, admitted_by, reason, decided_by, decided_at, arguments, arguments_hash, proposed
  ) on public.tool_calls to authenticated;

create policy "members read their runs" on public.runs
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "members start runs of their own" on public.runs
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and created_by = (select auth.uid()));
create policy "the service records the course of runs" on public.runs
  for update to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));

create policy "members read the events of their runs" on public.run_events
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "the service adds events" on public.run_events
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and (select private.is_service()));

create policy "members read the calls of their runs" on public.tool_calls
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "the service enters calls" on public.tool_calls
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "the service records the results of calls" on public.tool_calls
  for update to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Adds an event and tells whoever follows the run. The lock on the run's row makes the order of numbers the order of
-- commits, so a reader that has seen number n has seen all before it.
create function private.append_event(p_run_id uuid, p_body json) returns integer
language plpgsql set search_path = ''
as $$
declare
  v_org uuid;
  v_number integer;
begin
  select org_id into v_org from public.runs where id = p_run_id for no key update;
  if not found then
    raise exception 'There is no such run.' using errcode = 'PT404';
  end if;
  select coalesce(max(number), 0) + 1 into v_number from public.run_events where run_id = p_run_id;
  insert into public.run_events (run_id, number, org_id, body) values (p_run_id, v_number, v_org, p_body);
  perform pg_notify('fieldmark_run_events', p_run_id::text);
  return v_number;
end $$;

-- Holds a run for this transaction, if this attempt is the one at work on it.
create function private.fence(p_run_id uuid, p_attempt integer) returns void
language plpgsql set search_path = ''
as $$
begin
  perform from public.runs where id = p_run_id and status = 'running' and attempt = p_attempt for no key update;
  if not found then
    raise exception 'The run has ended or was taken up by another worker.' using errcode = 'PT410';
  end if;
end $$;

-- The ledger: a call is entered by the gate, claimed by the tool's transaction, finished in it. -----------------------

-- Does not wait for the disk: the transaction that claims the entry does, and what precedes it in the log is then there
-- too. A crash in between leaves no entry and no write. A call that is there already stays as it is.
create function private.enter_call(
  p_run_id uuid, p_attempt integer, p_call_id text, p_org_id uuid, p_tool text, p_arguments jsonb, p_arguments_hash text,
  p_status text, p_reason text
) returns void
language plpgsql set search_path = ''
as $$
begin
  -- No lock here: the gate must not wait for whoever writes an event. The tool's transaction holds the fence.
  if not exists (select from public.runs where id = p_run_id and status = 'running' and attempt = p_attempt) then
    raise exception 'The run has ended or was taken up by another worker.' using errcode = 'PT410';
  end if;
  perform set_config('synchronous_commit', 'off', true);
  insert into public.tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, reason)
  values (p_run_id, p_call_id, p_org_id, p_tool, p_arguments, p_arguments_hash, p_status,
    case p_status when 'admitted' then 'policy' end, p_reason)
  on conflict (run_id, id) do nothing;
end $$;

-- A person decides a call that waits: once, for their own run, and as they saw it (its arguments hash to `p_hash`). The
-- run goes back into the queue. Answers what was decided now, or null where nothing waited any more.
create function private.decide_call(
  p_run_id uuid, p_call_id text, p_hash text, p_approved boolean, p_reason text, p_arguments jsonb,
  p_arguments_hash text
) returns text
language plpgsql set search_path = ''
as $$
declare
  v_status text := case when p_approved then 'admitted' else 'refused' end;
begin
  perform from public.runs
  where id = p_run_id and created_by = auth.uid() and status = 'awaiting_approval' and waiting_call = p_call_id
  for no key update;
  if not found then
    return null;
  end if;
  update public.tool_calls set
    status = v_status, admitted_by = case when p_approved then 'person' end, reason = p_reason,
    decided_by = auth.uid(), decided_at = clock_timestamp(),
    proposed = case when p_arguments is null then null else arguments end,
    arguments = coalesce(p_arguments, arguments), arguments_hash = coalesce(p_arguments_hash, arguments_hash)
  where run_id = p_run_id and id = p_call_id and status = 'pending' and arguments_hash = p_hash;
  if not found then
    return null;
  end if;
  update public.runs set status = 'queued', tries = 0 where id = p_run_id;
  return v_status;
end $$;

-- Ends a run whoever is at work on it: a worker that still is can write nothing more, and hears of it.
create function private.cancel_run(p_run_id uuid, p_reason text) returns boolean
language plpgsql set search_path = ''
as $$
begin
  perform from public.runs
  where id = p_run_id and status in ('queued', 'running', 'awaiting_approval') for no key update;
  if not found then
    return false;
  end if;
  update public.tool_calls set status = 'refused', admitted_by = null, reason = p_reason, decided_by = auth.uid(),
    decided_at = clock_timestamp()
  where run_id = p_run_id and status = 'pending';
  update public.runs set status = 'cancelled', waiting_call = null, error = p_reason, error_code = 'cancelled',
    finished_at = now()
  where id = p_run_id;
  perform private.append_event(
    p_run_id, json_build_object('error', p_reason, 'code', 'cancelled', 'run_id', p_run_id));
  perform pg_notify('fieldmark_work', p_run_id::text);
  return true;
end $$;

-- Locks the entry of exactly this call, and says for whom this transaction writes: the journal's trigger reads it. No
-- row where the gate has entered no such call.
create function private.claim_call(
  p_run_id uuid, p_attempt integer, p_call_id text, p_tool text, p_arguments_hash text
) returns table (status text, result text)
language plpgsql set search_path = ''
as $$
begin
  perform private.fence(p_run_id, p_attempt);
  perform set_config('fieldmark.run_id', p_run_id::text, true), set_config('fieldmark.call_id', p_call_id, true);
  return query
    select c.status, c.result from public.tool_calls as c
    where c.run_id = p_run_id and c.id = p_call_id and c.tool = p_tool and c.arguments_hash = p_arguments_hash
    for no key update;
end $$;

-- Records a call's answer, which a repetition of the call will be given again, and the event that tells of it.
create function private.finish_call(p_run_id uuid, p_call_id text, p_result text, p_failed boolean, p_event json)
returns void
language plpgsql set search_path = ''
as $$
begin
  update public.tool_calls set
    status = case when p_failed then 'failed' else 'done' end, result = p_result, finished_at = clock_timestamp()
  where run_id = p_run_id and id = p_call_id;
  if not p_failed then
    update public.runs set tries = 0 where id = p_run_id and tries > 0;
  end if;
  if p_event is not null then
    perform private.append_event(p_run_id, p_event);
  end if;
end $$;

-- Ends a run that nobody is working on, whoever its user is: its document failed, or it was taken up too often.
create function private.fail_run(p_run_id uuid, p_error text, p_code text) returns void
language plpgsql security definer set search_path = ''
as $$
begin
  update public.runs set status = 'failed', error = p_error, error_code = p_code, finished_at = now()
  where id = p_run_id and status in ('queued', 'running');
  if found then
    perform private.append_event(p_run_id, json_build_object('error', p_error, 'code', p_code, 'run_id', p_run_id));
  end if;
end $$;

-- Whose run, whose document: a worker asks before it enters through the one door.
-- How many runs wait for a person, of all tenants: no more than the number.
create function private.waiting_runs() returns bigint
language sql stable security definer set search_path = ''
as $$ select count(*) from public.runs where status = 'awaiting_approval' $$;

create function private.scope_of_run(p_run_id uuid) returns table (user_id uuid, org_id uuid)
language sql stable security definer set search_path = ''
as $$ select created_by, org_id from public.runs where id = p_run_id $$;

create function private.scope_of_document(p_document_id uuid) returns table (user_id uuid, org_id uuid)
language sql stable security definer set search_path = ''
as $$ select created_by, org_id from public.documents where id = p_document_id $$;

-- Fails a document that no worker can read any more, whoever its user is.
create function private.fail_document(p_document_id uuid, p_error text) returns void
language sql security definer set search_path = ''
as $$
  update public.documents set status = 'failed', error = p_error where id = p_document_id and status = 'reading'
$$;

-- The queue -----------------------------------------------------------------------------------------------------------

create function private.enqueue(p_queue text, p_task text, p_args jsonb, p_lock text) returns void
language plpgsql security definer set search_path = queue, pg_temp
as $$
begin
  if to_regprocedure('queue.procrastinate_defer_jobs_v1(queue.procrastinate_job_to_defer_v1[])') is null then
    raise exception 'The job queue is not set up: run `fieldmark migrate` once.' using errcode = 'PT503';
  end if;
  perform queue.procrastinate_defer_jobs_v1(
    array[row(p_queue, p_task, 0, p_lock, null, p_args, null)::queue.procrastinate_job_to_defer_v1]);
end $$;

create function private.enqueue_execution(p_run public.runs) returns void
language plpgsql set search_path = ''
as $$
begin
  -- The lock: one run at a time on an extraction, in their order.
  perform private.enqueue(
    case when p_run.background then 'background' else 'runs' end, 'execute_run',
    jsonb_build_object('run_id', p_run.id), p_run.extraction_id::text);
end $$;

-- Security definer, all of them: whoever inserts a row may have no right on the queue.
create function private.enqueue_reading() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  perform private.enqueue('documents', 'read_document', jsonb_build_object('document_id', new.id), new.id::text);
  return null;
end $$;

create function private.enqueue_run() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  v_document public.documents;
begin
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

create function private.release_waiting_runs() returns trigger
language plpgsql security definer set search_path = ''
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
language plpgsql security definer set search_path = ''
as $$
begin
  perform private.enqueue_execution(new);
  return null;
end $$;

-- Whoever follows a run that is deleted, or works on it, hears of it.
create function private.tell_of_deletion() returns trigger
language plpgsql set search_path = ''
as $$
begin
  perform pg_notify('fieldmark_run_events', old.id::text), pg_notify('fieldmark_work', old.id::text);
  return null;
end $$;

create trigger tell_of_deletion after delete on public.runs
  for each row when (old.status not in ('completed', 'failed', 'cancelled')) execute function private.tell_of_deletion();
create trigger enqueue_reading after insert on public.documents
  for each row when (new.status = 'reading') execute function private.enqueue_reading();
create trigger enqueue_run after insert on public.runs
  for each row when (new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_again after update of status on public.runs
  for each row when (old.status <> 'queued' and new.status = 'queued') execute function private.enqueue_again();
create trigger release_waiting_runs after update of status on public.documents
  for each row when (old.status = 'reading' and new.status <> 'reading') execute function private.release_waiting_runs();

revoke execute on all functions in schema private from public;
grant execute on function
  private.append_event(uuid, json), private.fence(uuid, integer),
  private.enter_call(uuid, integer, text, uuid, text, jsonb, text, text, text),
  private.decide_call(uuid, text, text, boolean, text, jsonb, text), private.cancel_run(uuid, text),
  private.claim_call(uuid, integer, text, text, text), private.finish_call(uuid, text, text, boolean, json)
  to authenticated;
grant execute on function
  private.fail_run(uuid, text, text), private.scope_of_run(uuid), private.scope_of_document(uuid),
  private.fail_document(uuid, text), private.waiting_runs()
  to fieldmark_app;

-- Front ends follow progress without the service.
do $$
declare
  v_table text;
begin
  foreach v_table in array array['documents', 'extractions', 'runs', 'run_events'] loop
    if not exists (
      select from pg_publication_tables
      where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end $$;

-- An owner that is neither superuser nor BYPASSRLS is subject to forced row security, and the security definer functions
-- above act as the owner.
do $$
declare
  v_table text;
begin
  if not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    foreach v_table in array array['organisations', 'memberships', 'documents', 'document_pages', 'extractions',
      'extraction_journal', 'runs', 'run_events', 'tool_calls'] loop
      execute format(
        'create policy "definer functions act as the owner" on public.%I to %I using (true) with check (true)',
        v_table, current_user);
    end loop;
  end if;
end $$;
