-- Auto-creations: the schema, prompt and extraction that an agent suggests for a document after it was read.

create table public.auto_creations (
  document_id uuid primary key,
  org_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- No foreign key: its run may be deleted before it.
  run_id uuid not null unique,
  status text not null default 'running' check (status in ('running', 'proposed', 'accepted', 'rejected', 'failed')),
  error text,
  decided_by uuid,
  decided_at timestamptz,
  -- For matching later documents: the document's type and the labels beside its values. `matched`: the similar document.
  kind text check (char_length(kind) between 1 and 200),
  labels text[] not null default '{}' check (cardinality(labels) <= 200),
  matched jsonb check (jsonb_typeof(matched) = 'object'),
  schema_revid uuid,
  prompt_revid uuid,
  extraction_id uuid,
  check ((status = 'failed') = (error is not null)),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (schema_revid, org_id) references public.schema_versions (id, org_id) on delete set null (schema_revid),
  foreign key (prompt_revid, org_id) references public.prompt_versions (id, org_id) on delete set null (prompt_revid),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete set null (extraction_id)
);
create index auto_creations_org_id on public.auto_creations (org_id, created_at desc, document_id desc);
create index auto_creations_open on public.auto_creations (org_id, status, created_at desc, document_id desc)
  where status in ('running', 'proposed');
create index auto_creations_known_again on public.auto_creations (org_id, kind, created_at desc)
  where status in ('proposed', 'accepted') and schema_revid is not null;
create index auto_creations_schema_revid on public.auto_creations (schema_revid);
create index auto_creations_prompt_revid on public.auto_creations (prompt_revid);
create index auto_creations_extraction_id on public.auto_creations (extraction_id);
select private.protect_table('public.auto_creations', p_members_read => true, p_service => '{update}');
grant update (kind, labels, matched, schema_revid, prompt_revid, extraction_id) on public.auto_creations
  to authenticated;

-- Starts the agent for a document that was read, if requested. A run that cannot start is recorded as failed here and
-- does not stop the document from becoming ready. Archives are skipped; the files in them inherit the request.
create function private.auto_create() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_task private.agent_tasks;
  v_run_id uuid;
begin
  if new.media_type = 'application/zip'
    or coalesce(new.auto_create, not new.extract_when_read
      and (select auto_create from public.organisations where id = new.org_id)) is not true
  then
    return null;
  end if;
  for v_task in select * from private.agent_tasks where when_read loop
    v_run_id := private.new_id();
    begin
      -- Row policies do not apply to this insert. A user who left or became a viewer starts nothing.
      perform private.require(
        private.role_of(new.org_id, new.created_by) in ('owner', 'member'),
        'The user who uploaded the document can no longer start runs in this organisation.', 'PT409');
      insert into public.runs (id, org_id, created_by, agent, task, document_id, background)
      values (v_run_id, new.org_id, new.created_by, v_task.agent, v_task.task, new.id, true);
    exception when others then
      insert into public.auto_creations (document_id, org_id, created_by, run_id, status, error)
      values (
        new.id, new.org_id, new.created_by, v_run_id, 'failed',
        case when sqlstate like 'PT%' then sqlerrm else 'The agent could not be started.' end)
      on conflict (document_id) do nothing;
    end;
  end loop;
  return null;
end $$;

create trigger start_auto_create after update of status on public.documents
  for each row when (old.status = 'reading' and new.status = 'ready') execute function private.auto_create();

-- Records the run of an auto-create task. A document has one at a time, and none while a suggestion is open.
create function private.record_auto_creation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from private.agent_tasks where agent = new.agent and task = new.task and when_read) then
    return null;
  end if;
  insert into public.auto_creations as a (document_id, org_id, created_by, run_id)
  values (new.document_id, new.org_id, new.created_by, new.id) on conflict (document_id) do update set
    run_id = excluded.run_id, created_by = excluded.created_by, created_at = now(), status = 'running', error = null,
    decided_by = null, decided_at = null, kind = null, labels = '{}', matched = null, schema_revid = null,
    prompt_revid = null, extraction_id = null
  where a.status in ('rejected', 'failed');
  perform private.require(
    found,
    'This document already has a suggestion, or an agent is working on one. Decide the suggestion first.', 'PT409', 'proposed_already');
  return null;
end $$;

create trigger record_auto_creation after insert on public.runs
  for each row when (new.parent_run_id is null and new.document_id is not null and new.extraction_id is null)
  execute function private.record_auto_creation();

-- Deletes the extractions of a run and its children, except `p_but` and those in which a person set a value.
create function private.delete_extractions_of_run(p_run_id uuid, p_but uuid default null) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from public.extractions
  where run_id = p_run_id and id is distinct from p_but and locks = '{}' and document_type_by is null
$$;

-- Deletes what a run and its children created, except what others changed since: values that a user set, versions or
-- references of others. What is still referenced is hidden instead.
create function private.delete_created_by_run(p_run_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.delete_extractions_of_run(p_run_id);
  delete from public.document_tags where run_id = p_run_id;

  -- Locked first: a concurrent reference is either visible here, or waits and then fails.
  perform from public.prompts where run_id = p_run_id for update;
  perform from public.prompt_versions where prompt_id in (select id from public.prompts where run_id = p_run_id) for update;
  update public.prompts as p set deleted_at = coalesce(deleted_at, now())
  where run_id = p_run_id and not exists (
      select from public.prompt_versions where prompt_id = p.id and run_id is distinct from p_run_id);
  delete from public.prompts as p
  where run_id = p_run_id
    and not exists (
      select from public.prompt_versions as v
      where v.prompt_id = p.id and (
        v.run_id is distinct from p_run_id
        or exists (select from public.extractions as e where e.prompt_revid = v.id)));

  perform from public.schemas where run_id = p_run_id for update;
  perform from public.schema_versions where schema_id in (select id from public.schemas where run_id = p_run_id) for update;
  update public.schemas as s set deleted_at = coalesce(deleted_at, now())
  where run_id = p_run_id and not exists (
      select from public.schema_versions where schema_id = s.id and run_id is distinct from p_run_id);
  delete from public.schemas as s
  where run_id = p_run_id
    and not exists (select from public.prompt_versions as p where p.schema_id = s.id)
    and not exists (
      select from public.schema_versions as v
      where v.schema_id = s.id and (
        v.run_id is distinct from p_run_id
        or exists (select from public.extractions as e where e.schema_revid = v.id)));

  perform from public.tags where run_id = p_run_id for update;
  delete from public.tags as t
  where run_id = p_run_id
    and not exists (select from public.document_tags where tag_id = t.id)
    and not exists (select from public.prompt_versions as p where p.org_id = t.org_id and t.id = any (p.tag_ids));
end $$;

-- When the run ends, its results become a suggestion, or are deleted. Earlier extractions of the run are deleted.
create function private.end_auto_creation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_creation public.auto_creations;
  v_is_made boolean;
begin
  select * into v_creation from public.auto_creations where run_id = new.id and status = 'running' for no key update;
  if not found then
    return null;
  end if;
  v_is_made := new.status = 'completed' and exists (
    select from public.runs
    where extraction_id = v_creation.extraction_id and parent_run_id = new.id and status = 'completed');
  update public.auto_creations set status = case when v_is_made then 'proposed' else 'failed' end,
    error = case when not v_is_made then coalesce(new.error, 'No fields were extracted from the document.') end
  where run_id = new.id;
  if v_is_made then
    perform private.delete_extractions_of_run(new.id, v_creation.extraction_id);
  else
    perform private.delete_created_by_run(new.id);
  end if;
  return null;
end $$;

create trigger end_auto_creation after update of status on public.runs for each row when (
    new.status in ('completed', 'failed', 'cancelled') and old.status <> new.status and new.parent_run_id is null
    and new.document_id is not null and new.extraction_id is null)
  execute function private.end_auto_creation();

-- Deletes the suggested items of a document that is deleted before a decision.
create function private.delete_auto_creation_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.delete_created_by_run(old.run_id);
  return null;
end $$;

create trigger delete_auto_creation_run after delete on public.auto_creations
  for each row when (old.status in ('running', 'proposed')) execute function private.delete_auto_creation_run();

-- Accepts the suggestion for a document, or rejects it and deletes what its run created. Repeating a decision changes
-- nothing. A suggestion that uses a schema which is only suggested itself can be accepted only after that schema.
create function public.decide_auto_creation(p_document_id uuid, p_accepted boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_creation public.auto_creations;
  v_first uuid;
  v_refusal text;
  v_status text := case when p_accepted then 'accepted' when not p_accepted then 'rejected' end;
begin
  select * into v_creation from public.auto_creations
  where document_id = p_document_id and org_id in (select private.my_org_ids()) for update;
  perform private.check_org_writable(v_creation.org_id, 'proposal');
  v_refusal := private.approval_refusal_reason_for(v_creation.org_id, v_creation.created_by);
  if v_refusal in ('not_approver', 'second_person_needed') then
    raise exception '%', case v_refusal
        when 'not_approver' then 'Only owners can decide suggestions in this organisation.'
        else 'Someone else must decide this suggestion: the organisation requires a second person.' end
      using errcode = 'PT403', detail = v_refusal;
  end if;
  if v_creation.status = v_status then
    return;
  end if;
  if v_creation.status <> 'proposed' or v_status is null then
    raise exception 'There is no open suggestion for this document: its status is %.', v_creation.status using errcode = 'PT409';
  end if;
  if p_accepted then
    select a.document_id into v_first
    from public.schema_versions as v join public.auto_creations as a on a.run_id = v.run_id
    where v.id = v_creation.schema_revid and a.document_id <> p_document_id and a.status in ('running', 'proposed');
    perform private.require(
      not found,
      format('This suggestion uses a schema that is itself only suggested, for document %s. Decide that suggestion first.', v_first),
      'PT409', 'schema_proposed');
  end if;
  update public.auto_creations set status = v_status, decided_by = auth.uid(), decided_at = now()
  where document_id = p_document_id;
  if not p_accepted then
    perform private.delete_created_by_run(v_creation.run_id);
  end if;
end $$;

create function private.is_proposed(p_run_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p_run_id is not null and exists (
    select from public.auto_creations where run_id = p_run_id and status in ('running', 'proposed'))
$$;
