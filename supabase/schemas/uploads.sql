-- Uploads: which documents are extracted once they are read, and the rules that choose a schema or a table for them.

-- Rules of an organisation, in their order. The first that matches a document without a request of its own applies.
create table public.upload_rules (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  number integer not null check (number > 0),
  -- What a document must have: a type as the labels name it, a file name (`*` stands for any characters), and a part of
  -- a mail's sender. All that are set must match.
  document_type text check (char_length(document_type) between 1 and 200),
  filename text check (char_length(filename) between 1 and 200),
  sender text check (char_length(sender) between 1 and 200),
  -- What it becomes: an extraction under the latest version of a schema, or a row of a stack's table.
  schema_id uuid,
  stack_id uuid,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  unique (org_id, number),
  constraint has_a_condition check (num_nonnulls(document_type, filename, sender) > 0),
  constraint has_one_target check (num_nonnulls(schema_id, stack_id) = 1),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade,
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade
);
create index upload_rules_schema_id on public.upload_rules (schema_id, org_id);
create index upload_rules_stack_id on public.upload_rules (stack_id, org_id);
select private.protect_table('public.upload_rules', p_members_read => true);

-- Replaces all rules of an organisation by these, in their order. Owners only.
create function public.set_upload_rules(p_org_id uuid, p_rules jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_owner(p_org_id),
    private.require(jsonb_typeof(p_rules) = 'array' and jsonb_array_length(p_rules) <= 50, 'Send a list of at most 50 rules.');
  -- Locked, so that two lists are not mixed.
  perform from public.organisations where id = p_org_id for no key update;
  delete from public.upload_rules where org_id = p_org_id;
  insert into public.upload_rules (org_id, number, document_type, filename, sender, schema_id, stack_id)
  select p_org_id, r.number, rule ->> 'document_type', rule ->> 'filename', rule ->> 'sender',
    (rule ->> 'schema_id')::uuid, (rule ->> 'stack_id')::uuid
  from jsonb_array_elements(p_rules) with ordinality as r (rule, number);
end $$;

-- Extracts a document that was read, if requested. A run that cannot start is recorded as failed, and can be repeated.
-- Archives are skipped; the files in them inherit the request.
create function private.extract_when_read() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_extraction_id uuid;
  v_refusal text;
begin
  -- (The request that uploaded it may have started one already.)
  if new.media_type = 'application/zip' or exists (select from public.extractions where document_id = new.id) or
    private.role_of(new.org_id, new.created_by) not in ('owner', 'member')
  then
    return null;
  end if;
  begin
    insert into public.extractions (org_id, created_by, user_id, document_id, schema_revid)
    values (new.org_id, new.created_by, new.created_by, new.id, new.extract_revid) returning id into v_extraction_id;
  exception when sqlstate 'PT409' then
    return null;  -- the schema was deleted
  end;
  begin
    insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, background)
    select new.org_id, new.created_by, agent, task, new.id, v_extraction_id, true
    from private.agent_tasks where task = 'extract';
  exception when sqlstate 'PT409' or sqlstate 'PT429' then
    get stacked diagnostics v_refusal = message_text;
    insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, background, status, error, finished_at)
    select new.org_id, new.created_by, agent, task, new.id, v_extraction_id, true, 'failed', v_refusal, now()
    from private.agent_tasks where task = 'extract';
    update public.extractions set status = 'failed' where id = v_extraction_id;
  end;
  return null;
end $$;

create trigger start_extraction after update of status on public.documents
  for each row when (old.status = 'reading' and new.status = 'ready' and new.extract_when_read)
  execute function private.extract_when_read();
