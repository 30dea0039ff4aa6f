-- Runs: an agent working on one task. A run may be a child of another run, which waits for it.
-- The trigger fill_run sets `root_run_id`, `lock_key` and, unless it is given, `approval`. Their defaults make them optional
-- in the TypeScript types of the Supabase CLI.

create table public.runs (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  agent text not null,
  task text not null,
  -- The task's input: instructions of an extraction, message of a correction. At most 256 kB.
  input jsonb not null default '{}' check (jsonb_typeof(input) = 'object'),
  -- The subject. private.agent_tasks lists which of these columns a task uses.
  thread_id uuid,
  document_id uuid,
  extraction_id uuid,
  stack_id uuid,
  -- The parent run, its call that waits for this run, and the root run, which has the budget.
  parent_run_id uuid,
  parent_call_id text check (char_length(parent_call_id) between 1 and 200),
  root_run_id uuid not null default '00000000-0000-0000-0000-000000000000',
  -- The thread of the root run: users who see that thread see this run.
  root_thread_id uuid,
  -- Runs with the same lock key run one at a time, oldest first. The key starts with the organisation id.
  lock_key text not null default '',
  -- Default: the agent's.
  approval text not null default '' check (approval in ('auto', 'ask')),
  auto_approved_tools text[] not null default '{}'
    check (cardinality(auto_approved_tools) <= 100 and octet_length(auto_approved_tools::text) <= 10000),
  model text check (char_length(model) between 1 and 200),
  -- For the run and all its child runs. (NaN is greater than every number: without the upper bound it
  -- would be an unlimited budget.)
  max_cost_usd numeric(12, 6) check (max_cost_usd > 0 and max_cost_usd < 1000000),
  max_turns integer check (max_turns between 1 and 1000),
  -- Part of a batch: run by separate workers, so that it never delays a user.
  background boolean not null default false,
  -- Started by an agent on behalf of the user, such as an MCP client: no agent of the same user approves its calls.
  by_agent boolean not null default false,
  idempotency_key text check (char_length(idempotency_key) between 1 and 200),
  -- Hash of the request that used the key: the same key with another request is an error.
  request_hash text check (char_length(request_hash) = 64),
  status text not null default 'queued' check (
    status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs', 'completed', 'failed', 'cancelled')),
  -- Incremented each time a worker takes the run. A worker with a lower token can no longer write.
  fencing_token integer not null default 0,
  -- Number of consecutive attempts without a finished call.
  consecutive_failures integer not null default 0,
  -- The run's conversation, and the call that the run waits for or was resumed for.
  session_id uuid,
  waiting_call text,
  -- The corrections that the agent was shown as examples: [{extraction_id, path}].
  examples jsonb check (jsonb_typeof(examples) = 'array' and pg_column_size(examples) <= 20000),
  -- While the run waits for a decision or for child runs: whether a worker still keeps its CLI.
  attached boolean not null default false,
  -- The pages that the agent has read completely. (Reads are not recorded as tool calls.)
  pages_read int4multirange not null default '{}',
  -- While queued: since when it waits for capacity of its organisation.
  waiting_for_capacity_since timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  -- The final answer as text, and as typed data if the task has typed answers.
  answer text,
  result jsonb check (jsonb_typeof(result) = 'object' and pg_column_size(result) <= 262144),
  error text,
  error_code text,
  unique (id, org_id),
  unique (org_id, created_by, idempotency_key),
  check (extraction_id is null or document_id is not null),
  check (parent_call_id is null or parent_run_id is not null),
  check (status <> 'failed' or error is not null),
  check (error is null or status in ('failed', 'cancelled')),
  check (status not in ('awaiting_approval', 'awaiting_runs') or waiting_call is not null),
  check (not attached or status in ('awaiting_approval', 'awaiting_runs')),
  foreign key (org_id) references public.organisations (id) on delete cascade,
  foreign key (agent, task) references private.agent_tasks (agent, task),
  foreign key (thread_id, org_id) references public.threads (id, org_id) on delete cascade,
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (extraction_id, document_id, org_id)
    references public.extractions (id, document_id, org_id) on delete cascade,
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade,
  foreign key (parent_run_id, org_id) references public.runs (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
create index runs_org_id on public.runs (org_id, created_at desc, id desc);
create index runs_created_by on public.runs (org_id, created_by, created_at desc, id desc);
create index runs_status on public.runs (org_id, created_by, status, created_at desc, id desc);
create index runs_thread_id on public.runs (thread_id, created_at desc, id desc);
create index runs_document_id on public.runs (document_id);
create index runs_extraction_id on public.runs (extraction_id, created_at desc, id desc);
create index runs_stack_id on public.runs (stack_id, created_at desc, id desc);
create index runs_parent_run_id on public.runs (parent_run_id, parent_call_id);
create index runs_session_id on public.runs (session_id);
create index runs_inbox on public.runs (org_id, created_at desc, id desc) where status = 'awaiting_approval';
create index runs_open on public.runs (org_id, status, document_id)
  where status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs');
create index runs_waiting_for_capacity on public.runs (org_id, created_at) where waiting_for_capacity_since is not null;
create index runs_lock_key on public.runs (lock_key)
  where status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs');
select private.protect_table('public.runs', p_service => '{update}');
grant select, insert (
  id, org_id, agent, task, input, thread_id, document_id, extraction_id, stack_id, parent_run_id, parent_call_id,
  approval, auto_approved_tools, model, max_cost_usd, idempotency_key, request_hash, background, max_turns,
  by_agent
) on public.runs to authenticated;
grant update (
  status, fencing_token, consecutive_failures, session_id, waiting_call, attached,
  pages_read, waiting_for_capacity_since, started_at, finished_at, answer, result, error, error_code, examples
) on public.runs to authenticated;

create policy "members read their runs" on public.runs for select to authenticated
  using (
    org_id in (select private.my_org_ids())
    and (root_thread_id is null or exists (select from public.threads as t where t.id = root_thread_id))
  );
create policy "members start runs of their own, and the service their parts" on public.runs for insert to authenticated
  with check (
    org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid())
    and (parent_run_id is null or (select private.is_service()))
  );

-- The input of a new run with what a second model reads again: as the run says, else the schema, else the organisation.
-- (Without it, nothing.)
create function private.with_second_reading(p_input jsonb, p_extraction_id uuid, p_org public.organisations) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when mode in ('unsure', 'all') then p_input || jsonb_build_object('second_reading', mode) else p_input end
  from (select coalesce(
    p_input ->> 'second_reading',
    (select e.schema::jsonb #>> '{x-fieldmark,second_reading}' from public.extractions as e where e.id = p_extraction_id),
    p_org.second_reading) as mode) as said
$$;

-- Fills in a new run's columns and rejects a run that matches no task.
-- Security definer: checks threads and runs that the caller may not see.
create function private.fill_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_task private.agent_tasks;
  v_has text[] := array_remove(array[
    case when new.document_id is not null then 'document_id' end,
    case when new.extraction_id is not null then 'extraction_id' end,
    case when new.thread_id is not null then 'thread_id' end,
    case when new.stack_id is not null then 'stack_id' end], null);
  v_wrong text;
  v_org public.organisations;
  v_thread public.threads;
  v_parent public.runs;
begin
  select * into v_task from private.agent_tasks where agent = new.agent and task = new.task;
  perform private.require(
    found, format('There is no agent %s with a task %s.', left(new.agent, 80), left(new.task, 80)));
  select name into v_wrong from unnest(v_task.needs) as name where name <> all (v_has) limit 1;
  perform private.require(not found, format('A run of the task %s needs a %s.', new.task, v_wrong));
  select name into v_wrong from unnest(v_has) as name where name <> all (v_task.needs || v_task.may_have) limit 1;
  perform private.require(not found, format('A run of the task %s has no %s.', new.task, v_wrong));
  select name into v_wrong from unnest(v_task.input_needs) as name where coalesce(new.input ->> name, '') = '' limit 1;
  perform private.require(not found, format('The input of the task %s needs %s.', new.task, v_wrong));
  select name into v_wrong from jsonb_object_keys(new.input) as name where name <> all (v_task.input_may_have) limit 1;
  perform private.require(not found, format('The input of the task %s has no %s.', new.task, left(v_wrong, 80)));
  perform private.check_json(new.input, 'The input of a run');
  perform private.require(pg_column_size(new.input) <= 262144, 'The input of a run may not exceed 256 kB.');
  select * into v_org from public.organisations where id = new.org_id;
  if 'second_reading' = any (v_task.input_may_have) then
    new.input := private.with_second_reading(new.input, new.extraction_id, v_org);
  end if;
  new.approval := coalesce(
    nullif(new.approval, ''), v_task.approval, (select approval from private.agents where name = new.agent));
  -- If a second person or an owner must decide, neither the creator nor the organisation can approve in advance.
  if v_org.second_person
    or (v_org.approvers = 'owners' and private.role_of(new.org_id, new.created_by) is distinct from 'owner') then
    new.approval := 'ask';
    new.auto_approved_tools := '{}';
  else
    new.auto_approved_tools := array(
      select distinct tool from unnest(new.auto_approved_tools || v_org.auto_approved_tools) as tool order by tool);
  end if;

  if new.thread_id is not null then
    update public.threads set updated_at = clock_timestamp()
    where id = new.thread_id and org_id = new.org_id and created_by is not distinct from new.created_by
    returning * into v_thread;
    perform private.require(found, 'Thread not found.');
    perform private.require(v_thread.agent = new.agent, format('The thread belongs to the agent %s.', v_thread.agent));
    perform private.require(
      coalesce(v_thread.document_id = new.document_id, v_thread.document_id is null), 'The thread is about another document.');
  end if;

  new.root_run_id := new.id;
  new.root_thread_id := new.thread_id;
  if new.parent_run_id is not null then
    select * into v_parent from public.runs where id = new.parent_run_id and org_id = new.org_id;
    perform private.require(found, 'Parent run not found.');
    perform private.require(
      v_parent.status not in ('completed', 'failed', 'cancelled'), 'The parent run has ended.', 'PT410');
    new.root_run_id := v_parent.root_run_id;
    new.root_thread_id := coalesce(v_parent.root_thread_id, new.thread_id);
  end if;

  new.lock_key := new.org_id || case
    when new.extraction_id is not null then '/extraction/' || new.extraction_id
    when new.thread_id is not null then '/thread/' || new.thread_id
    when new.stack_id is not null then '/stack/' || new.stack_id
    else '/run/' || new.id
  end;
  return new;
end $$;

create trigger fill_run before insert on public.runs for each row execute function private.fill_run();

-- Locks a run for this transaction if the worker with this fencing token still has it.
create function private.fence(p_run_id uuid, p_fencing_token integer) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.runs
  where id = p_run_id and (status = 'running' or attached) and fencing_token = p_fencing_token for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
end $$;

-- Deletes an ended run with its events, calls and child runs. Written values and usage are kept.
create function public.delete_run(p_run_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  select * into v_run from public.runs as r
  where id = p_run_id and private.may_delete(org_id, created_by)
    and (root_thread_id is null or exists (
      select from public.threads as t where t.id = r.root_thread_id and (t.shared or t.created_by = auth.uid())))
  for update;
  perform private.check_found(found, 'run');
  perform private.require(v_run.parent_run_id is null, 'This is a child run. Delete its parent run instead.', 'PT409');
  perform private.require(
    v_run.status in ('completed', 'failed', 'cancelled'), 'The run has not ended. Cancel it first.', 'PT409');
  delete from public.runs where id = p_run_id;
end $$;

create function private.scope_of_run(p_run_id uuid) returns table (user_id uuid, org_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select created_by, org_id from public.runs where id = p_run_id $$;

-- Security definer: the run may be in a conversation that the caller cannot see.
create function private.has_active_run(p_extraction_id uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.runs
    where extraction_id = p_extraction_id and org_id in (select private.my_org_ids())
      and status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs'))
$$;

create function private.count_waiting_runs() returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select count(*) from public.runs where status = 'awaiting_approval' $$;

-- Marks the extraction of a failed run as failed, unless a completed run or a user has also worked on it. A child run that
-- only helps another run on the extraction does not count.
create function private.fail_extraction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.extractions as e set status = 'failed'
  where id = new.extraction_id and status = 'in_progress' and locks = '{}' and document_type_by is null
    and not exists (select from public.runs where extraction_id = e.id and status = 'completed')
    and not exists (select from public.runs where id = new.parent_run_id and extraction_id = e.id);
  return null;
end $$;

create trigger fail_extraction after update of status on public.runs
  for each row when (new.status in ('failed', 'cancelled') and new.extraction_id is not null)
  execute function private.fail_extraction();
