-- Agents: what the database knows of each. `fieldmark migrate` writes the rows from the code (AgentSpec).

create table private.agents (
  name text primary key check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Whether its calls wait for a person, where a run does not say so itself.
  approval text not null check (approval in ('auto', 'ask'))
);

create table private.agent_tasks (
  agent text not null references private.agents (name) on delete cascade,
  task text not null check (task ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Which of its subject columns a run of this task must have, and which it may have besides.
  needs text[] not null check (needs <@ array['document_id', 'extraction_id', 'thread_id']),
  may_have text[] not null default '{}' check (may_have <@ array['document_id', 'extraction_id', 'thread_id']),
  -- Whether its input is a person's own words, so that the agent can write in that person's name.
  speaks boolean not null default false,
  approval text check (approval in ('auto', 'ask')),
  -- Whether it is begun for each document that asks for it, when that is read: see auto_creations.sql.
  when_read boolean not null default false,
  primary key (agent, task)
);
grant select on private.agents, private.agent_tasks to authenticated;
