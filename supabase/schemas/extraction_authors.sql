-- Authors of a write: a user, or an agent's call on behalf of a user.

-- Returns the user who approved the call of this transaction; null if it was approved by policy.
create function private.approving_user() returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select decided_by from public.tool_calls
  where run_id = private.this_run() and id = private.this_call() and approved_by = 'person'
$$;

create function private.message_author() returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select run.created_by from public.runs as run
  join private.agent_tasks as t on t.agent = run.agent and t.task = run.task
  where run.id = private.this_run() and t.is_message
$$;

-- The leaves (or `document_type`) that the author's message names. The service sets them for this transaction.
create function private.paths_allowed_by_message() returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case
    when private.message_author() is null then '{}'
    else array(
      select jsonb_array_elements_text(coalesce(nullif(current_setting('fieldmark.paths_in_message', true), ''), '[]')::jsonb))
  end
$$;
