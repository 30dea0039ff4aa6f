-- The rows of stacks: each document with its extraction under the stack's schema.

-- The documents of stacks. `first_copy`: of the documents with the same bytes the one that was added first, so that
-- a row that is filled never becomes a duplicate. Read by stack; or by stack, organisation and content, with `offset 0`.
create view private.stack_copies with (security_invoker = true) as
  select s.stack_id, s.document_id, d.org_id, d.content_sha256, d.created_at as uploaded_at,
    first_value(s.document_id) over (
      partition by d.content_sha256, case when d.content_sha256 is null then d.id end, s.stack_id, d.org_id
      order by s.created_at, d.created_at, d.id) as first_copy
  from public.stack_documents as s join public.documents as d on d.id = s.document_id;
grant select on private.stack_copies to authenticated;

-- Whether the new version of a schema has a field that the old one lacks or defines in another way, or another rule.
create function private.has_new_fields(p_old jsonb, p_new jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select p_old is null or case when jsonb_typeof(p_old) = 'object' and jsonb_typeof(p_new) = 'object' then
      p_old - compared.apart <> p_new - compared.apart
      or coalesce(p_old -> 'x-fieldmark', '{}') - compared.of_columns <> coalesce(p_new -> 'x-fieldmark', '{}') - compared.of_columns
      or p_new ? 'items' and private.has_new_fields(p_old -> 'items', p_new -> 'items')
      or exists (
        select from jsonb_each(p_new -> 'properties') where private.has_new_fields(p_old -> 'properties' -> key, value)
          or coalesce(p_old -> 'required' ? key, false) <> coalesce(p_new -> 'required' ? key, false))
    else p_old <> p_new end
  from (values (
    '{properties,items,required,title,default,examples,$comment,x-fieldmark}'::text[], '{columns,required}'::text[])
  ) as compared (apart, of_columns)
$$;

-- `state`: duplicate (a document that is longer in the stack has the same bytes), container (an archive, whose files have
-- rows; failed if some were left out), waiting, running, awaiting_approval, failed, stale (columns were added or changed
-- since), done, or incomplete (a run ended without completing the extraction).
create view public.stack_table_rows with (security_invoker = true) as
  select s.org_id, s.user_id, s.stack_id, s.document_id, t.schema_id, e.id as extraction_id, e.schema_revid, e.version,
    e.extracted_fields, e.confidence_scores, e.evidence, e.locks, first.document_id as duplicate_of, state.state,
    case when state in ('failed', 'waiting') then coalesce(d.error, r.error, case when skipped.code is not null
      then 'Some files of the archive were left out. The warnings of the document say which, and why.' end) end as error,
    case when state in ('failed', 'waiting') then coalesce(d.error_code, r.error_code, skipped.code) end as error_code
  from public.stack_documents as s
  join public.documents as d on d.id = s.document_id
  left join public.stack_tables as t on t.stack_id = s.stack_id
  left join lateral (
    select first_copy as document_id from private.stack_copies
    where stack_id = s.stack_id and org_id = s.org_id and content_sha256 = d.content_sha256
      and document_id = s.document_id and first_copy <> s.document_id offset 0) as first on true
  left join lateral (
    select * from private.schema_extractions
    where schema_id = t.schema_id and document_id = s.document_id offset 0) as e
    on first.document_id is null
  left join lateral (
    select * from public.runs where extraction_id = e.id order by created_at desc, id desc limit 1) as r on true
  left join lateral (
    select value ->> 'code' as code from jsonb_array_elements(d.warnings)
    where d.media_type = 'application/zip' and value ->> 'code' <> 'enclosed_apart' limit 1) as skipped on true
  cross join lateral (
    select case
      when first.document_id is not null then 'duplicate'
      when d.status = 'ready' and d.media_type = 'application/zip' then case when skipped.code is null then 'container' else 'failed' end
      when d.status = 'failed' and e.id is null then 'failed'
      when e.id is null or e.status <> 'completed' and r.status = 'queued' then 'waiting'
      when r.status in ('awaiting_approval', 'running') then r.status
      when r.status = 'awaiting_runs' then 'running'
      when e.status <> 'completed' and r.status in ('failed', 'cancelled') then
        case when r.error_code in ('cancelled', 'max_cost', 'out_of_credit') then 'waiting' else 'failed' end
      when e.status = 'failed' then 'failed'
      when exists (
        select from (
          select id, schema from public.schema_versions where schema_id = t.schema_id order by number desc limit 1) as v
        where case when v.id <> e.schema_revid then private.has_new_fields(e.schema::jsonb, v.schema::jsonb) end) then 'stale'
      when e.status = 'completed' then 'done'
      else 'incomplete' end as state
  ) as state;
revoke all on public.stack_table_rows from anon, authenticated;
grant select on public.stack_table_rows to authenticated;
