-- Changes: the outbox. Each event that another system cares about is a row, written by a trigger in the transaction that
-- it reports. GET /api/changes reads the rows; webhooks.sql sends them.

create table public.changes (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  -- The order of writing. (Rows about one document are written one after the other, since its row or that of its
  -- extraction is locked.) A row may be committed after a later one.
  written bigint generated always as identity,
  -- 1, 2, 3 … in the feed of the organisation, given after the commit by publish_changes, so that a reader who has seen a
  -- number never misses a lower one.
  number bigint check (number > 0),
  type text not null check (type in (
    'document.ready', 'document.failed', 'document.deleted', 'extraction.completed', 'extraction.reviewed',
    'extraction.changed', 'run.awaiting_approval', 'run.completed', 'run.failed', 'run.cancelled', 'table.completed',
    'quota.warning', 'quota.reached', 'webhook.test', 'webhook.disabled')),
  -- What it is about. No foreign keys: a change is kept when that is deleted.
  document_id uuid,
  extraction_id uuid,
  -- Also the run that wrote the extraction.
  run_id uuid,
  stack_id uuid,
  webhook_id uuid,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  unique (org_id, number),
  unique (id, org_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create index changes_unpublished on public.changes (org_id, written) where number is null;
create index changes_created_at on public.changes (created_at);
-- Nothing in it is private: runs of conversations are left out.
select private.protect_table('public.changes', p_members_read => true);

create function private.record_document_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id) values (new.org_id, 'document.' || new.status, new.id);
  return null;
end $$;
create trigger record_document_change after update of status on public.documents
  for each row when (new.status in ('ready', 'failed') and new.status <> old.status)
  execute function private.record_document_change();

create function private.record_deleted_documents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id)
  select org_id, 'document.deleted', id from gone
  where org_id in (select o.id from public.organisations as o)
    and org_id not in (select d.org_id from private.organisation_deletions as d);
  return null;
end $$;
create trigger record_deleted_documents after delete on public.documents
  referencing old table as gone for each statement execute function private.record_deleted_documents();

create function private.record_extraction_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id, extraction_id, run_id)
  select new.org_id, 'extraction.' || event, new.document_id, new.id, private.this_root_run()
  from (values
    (1, 'changed', tg_op = 'UPDATE' and old.status = 'completed' and old.version <> new.version),
    (2, 'completed', new.status = 'completed' and (tg_op = 'INSERT' or old.status <> 'completed')),
    (3, 'reviewed', new.reviewed_by is not null and (tg_op = 'INSERT' or old.reviewed_by is distinct from new.reviewed_by))
  ) as events (step, event, has_happened)
  where has_happened order by step;
  return null;
end $$;
create trigger record_inserted_extraction after insert on public.extractions
  for each row when (new.status = 'completed' and not new.is_trial) execute function private.record_extraction_change();
create trigger record_changed_extraction after update on public.extractions
  for each row when (not new.is_trial and (
    new.status <> old.status or new.reviewed_by is distinct from old.reviewed_by
    or (old.status = 'completed' and new.version <> old.version)))
  execute function private.record_extraction_change();

-- A child run is a part of its parent, but a person has to decide its calls. A filled table is a change of its own.
create function private.record_run_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id, extraction_id, run_id, stack_id)
  select new.org_id, event, new.document_id, new.extraction_id, new.root_run_id, new.stack_id
  from (values ('table.completed', new.status = 'completed' and new.task = 'stack' and new.stack_id is not null),
    ('run.' || new.status, true)) as events (event, has_happened)
  where has_happened
    -- (A member whose organisation is deleted leaves it, which cancels runs.)
    and exists (select from public.organisations where id = new.org_id)
    and not exists (select from public.extractions where id = new.extraction_id and is_trial);
  return null;
end $$;
create trigger record_run_change after update of status on public.runs
  for each row when (
    new.status <> old.status and new.root_thread_id is null
    and (new.status = 'awaiting_approval'
      or (new.parent_run_id is null and new.status in ('completed', 'failed', 'cancelled'))))
  execute function private.record_run_change();

-- What a change is about, as it is now. `fields` are the reviewed ones, `initial_fields` those before a person first
-- changed any, `edits` the last 1,000 changes by people.
create function private.change_data(p_change public.changes) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_strip_nulls(jsonb_build_object(
      'document_id', p_change.document_id, 'extraction_id', p_change.extraction_id, 'run_id', p_change.run_id,
      'stack_id', p_change.stack_id, 'webhook_id', p_change.webhook_id))
    || coalesce((select jsonb_object_agg(name, about) from (values
      ('document', (
        select jsonb_build_object('id', d.id, 'filename', d.filename, 'external_id', d.external_id, 'metadata', d.metadata,
          'status', d.status, 'error', d.error, 'error_code', d.error_code, 'page_count', d.page_count)
        from public.documents as d where d.id = p_change.document_id)),
      ('extraction', (
        select jsonb_build_object('id', e.id, 'status', e.status, 'version', e.version,
          'document_type', e.document_type, 'schema', s.name, 'schema_revid', e.schema_revid,
          'is_reviewed', e.reviewed_by is not null, 'review_count', e.review_count, 'fields', e.extracted_fields,
          'initial_fields', coalesce((
            select private.fields_at(e.id, min(j.version) - 1) from public.extraction_journal as j
            where j.extraction_id = e.id and j.actor = 'user' having count(*) > 0), e.extracted_fields),
          'edits', coalesce((
            select jsonb_agg(to_jsonb(edit) order by edit.number) from (
              select id as number, path, old, new, created_by, created_at from public.extraction_journal
              where extraction_id = e.id and actor = 'user' order by id desc limit 1000) as edit), '[]'))
        from public.extractions as e
          left join public.schema_versions as v on v.id = e.schema_revid left join public.schemas as s on s.id = v.schema_id
        where e.id = p_change.extraction_id)),
      ('run', (
        select jsonb_build_object('id', r.id, 'task', r.task, 'status', r.status, 'error', r.error,
          'error_code', r.error_code, 'answer', r.answer, 'idempotency_key', r.idempotency_key)
        from public.runs as r where r.id = p_change.run_id and p_change.type ~ '^(run|table)\.')),
      ('table', (
        select jsonb_build_object('id', t.id, 'name', t.name) from public.stacks as t where t.id = p_change.stack_id)),
      ('storage', (
        select jsonb_build_object('documents', u.documents, 'bytes', u.bytes, 'max_documents', l.max_documents,
          'max_bytes', l.max_bytes)
        from public.storage_usage as u left join public.credit_limits as l on l.org_id = u.org_id
        where u.org_id = p_change.org_id and p_change.type like 'quota.%'))
    ) as parts (name, about) where about is not null), '{}')
$$;

-- Gives committed changes their numbers, and queues them for the webhooks of their organisation. Returns how many were
-- published; none while another worker does it.
create function private.publish_changes() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
  v_ids uuid[];
  v_count integer := 0;
begin
  -- (First without the lock, and so without a write.)
  if not exists (select from public.changes where number is null) or not private.lock_maintenance_task('changes') then
    return 0;
  end if;
  for v_org in select distinct org_id from public.changes where number is null limit 100 loop
    with due as (
      select id, row_number() over (order by written) as place from (
        select id, written from public.changes where org_id = v_org and number is null order by written limit 1000) as first
    ), published as (
      update public.changes as c set number = due.place + (
        select coalesce(max(number), 0) from public.changes where org_id = v_org)
      from due where c.id = due.id returning c.id
    )
    select array_agg(id) into v_ids from published;
    insert into public.webhook_deliveries (org_id, webhook_id, change_id)
    select v_org, w.id, c.id
    from public.changes as c join public.webhooks as w on w.org_id = v_org and w.is_enabled
    where c.id = any (v_ids)
      and case
        when c.type = 'webhook.test' then w.id = c.webhook_id
        else (w.types = '{}' or c.type = any (w.types)) and (w.run_id is null or w.run_id = c.run_id) end
    order by c.number;
    v_count := v_count + coalesce(cardinality(v_ids), 0);
  end loop;
  return v_count;
end $$;
