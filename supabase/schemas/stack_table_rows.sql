-- The rows of stacks: each document with its extraction under the stack's schema.

-- Each document's current extraction under a stack's schema, or a failed one if there is none. Read by `of_stack` and `of_document`: others than the stack's documents have rows, too.
create view private.stack_extractions with (security_invoker = true) as
  select t.stack_id as of_stack, d.id as of_document, e.*
  from public.stack_tables as t
  cross join public.documents as d
  cross join lateral (
    select * from public.extractions as e
    where e.document_id = d.id
      and e.schema_revid in (select v.id from public.schema_versions as v where v.schema_id = t.schema_id)
      and e.precedence < 3
    order by e.precedence, e.created_at desc, e.id desc limit 1) as e;
grant select on private.stack_extractions to authenticated;

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
    -- (By the time of adding, so that a row that is filled never becomes a duplicate. Also in stores/tables.py.)
    select o.id as document_id from public.documents as o
    cross join lateral (
      select created_at from public.stack_documents where stack_id = s.stack_id and document_id = o.id offset 0) as added
    where o.org_id = s.org_id and o.content_sha256 = d.content_sha256
      and (added.created_at, o.created_at, o.id) < (s.created_at, d.created_at, d.id)
    order by added.created_at, o.created_at, o.id limit 1) as first on true
  left join lateral (
    select * from private.stack_extractions where of_stack = s.stack_id and of_document = s.document_id) as e
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
