-- Agents and their tasks. `fieldmark migrate` writes the rows from the code (AgentSpec).

create table private.agents (
  name text primary key check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Default approval mode of the agent's runs.
  approval text not null check (approval in ('auto', 'ask'))
);

create table private.agent_tasks (
  agent text not null references private.agents (name) on delete cascade,
  task text not null check (task ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Columns that a run of this task must set, and columns that it may also set.
  needs text[] not null check (needs <@ array['document_id', 'extraction_id', 'thread_id', 'stack_id']),
  may_have text[] not null default '{}' check (may_have <@ array['document_id', 'extraction_id', 'thread_id', 'stack_id']),
  -- Keys that the input must have, and all that it may have (null: any).
  input_needs text[] not null default '{}',
  input_may_have text[],
  -- Whether the input is a user's own message, which lets the agent overwrite that user's locks.
  is_message boolean not null default false,
  approval text check (approval in ('auto', 'ask')),
  -- Whether the task starts automatically after a document is read (auto_creations.sql).
  when_read boolean not null default false,
  primary key (agent, task)
);
grant select on private.agents, private.agent_tasks to authenticated;
