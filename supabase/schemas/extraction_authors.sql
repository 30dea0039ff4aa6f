-- Authors of a write: an agent's call or a person, and in whose name an agent writes.

-- The person whose word stands behind what an agent writes here: who approved this very call. Null if nobody did.
create function private.person_behind() returns uuid
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select decided_by from public.tool_calls
  where run_id = private.this_run() and id = private.this_call() and admitted_by = 'person'
$$;

-- The person whose words the run's task carries out, if it is a task that speaks for one. They hold for what they name:
-- see private.spoken_for.
create function private.speaker() returns uuid
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select run.created_by from public.runs as run
  join private.agent_tasks as t on t.agent = run.agent and t.task = run.task
  where run.id = private.this_run() and t.speaks
$$;

-- The names of leaves for which the speaker's words hold, and `document_type` for that. The service has looked for them in
-- the words, and says so for this transaction.
create function private.spoken_for() returns text[]
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select case
    when private.speaker() is null then '{}'
    else array(
      select jsonb_array_elements_text(coalesce(nullif(current_setting('fieldmark.spoken', true), ''), '[]')::jsonb))
  end
$$;

-- The person in whose name an agent writes the leaf of this name, or null.
create function private.author_of(p_name text) returns uuid
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    private.person_behind(), case when p_name = any (private.spoken_for()) then private.speaker() end)
$$;
