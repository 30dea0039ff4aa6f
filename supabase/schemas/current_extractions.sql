-- Which of a document's extractions count.

-- A document's extraction under each schema: the one with the lowest precedence, then the newest. It is current if its
-- precedence is below 2. Read by schema; or by schema and document, with `offset 0`: a join would read all of a schema.
create view private.schema_extractions with (security_invoker = true) as
  select distinct on (v.schema_id, e.document_id) v.schema_id, e.*
  from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
  where e.precedence < 3
  order by v.schema_id, e.document_id, e.precedence, e.created_at desc, e.id desc;
grant select on private.schema_extractions to authenticated;

-- The extractions that count: those that private.schema_extractions selects. One without a stored schema counts until
-- there is a later one.
create view private.current_by_schema with (security_invoker = true) as
  select e.id, e.org_id, e.document_id, e.created_at, e.status, e.review_count, e.reviewed_by
  from public.extractions as e left join public.schema_versions as v on v.id = e.schema_revid
  where e.precedence < 2 and case when v.id is not null
    then e.id = (select id from private.schema_extractions where schema_id = v.schema_id and document_id = e.document_id)
    else not exists (
      select from public.extractions as o where o.document_id = e.document_id
        and o.precedence < 2 and (-o.precedence, o.created_at, o.id) > (-e.precedence, e.created_at, e.id)) end;
grant select on private.current_by_schema to authenticated;

-- What the extractions of a document say about its stage. Security definer: users may not write this column. An extraction
-- is locked before its document, also by delete_document.
create function private.store_extraction_stage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_document_id uuid := coalesce(new.document_id, old.document_id);
  v_stage text := (
    select case
      when count(*) = 0 then 'ready'
      when bool_or(status <> 'completed' or review_count > 0) then 'needs_review'
      when bool_and(reviewed_by is not null) then 'reviewed'
      else 'extracted' end
    from private.current_by_schema where document_id = v_document_id);
begin
  update public.documents set extraction_stage = v_stage where id = v_document_id and extraction_stage <> v_stage;
  return null;
end $$;

create trigger store_extraction_stage after insert or delete on public.extractions
  for each row execute function private.store_extraction_stage();
create trigger store_changed_extraction_stage after update on public.extractions for each row when (
    (old.status, old.reviewed_by is null, old.review_count > 0, old.precedence, old.schema_revid)
    is distinct from (new.status, new.reviewed_by is null, new.review_count > 0, new.precedence, new.schema_revid))
  execute function private.store_extraction_stage();

-- A suggestion is decided, or made again by another run.
create function private.mark_suggestions() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.extractions set is_suggestion = private.is_proposed(run_id)
  where document_id = new.document_id and is_suggestion <> private.is_proposed(run_id);
  return null;
end $$;

create trigger mark_suggestions after insert or update of status, run_id on public.auto_creations
  for each row execute function private.mark_suggestions();

-- What happens to documents now: of several activities, the one with the lowest precedence is the document's stage. While
-- there is one, `extraction_stage` does not count.
create view private.document_activities with (security_invoker = true) as
  select org_id, document_id, 'extracting' as stage, 1 as precedence from public.runs
  where document_id is not null and extraction_id is not null and status in ('queued', 'running', 'awaiting_runs')
  union all
  select org_id, document_id, 'awaiting_approval', 2 from public.runs
  where document_id is not null and status = 'awaiting_approval'
  union all
  select org_id, document_id, 'extracting', 1 from public.auto_creations where status = 'running'
  union all
  select org_id, document_id, 'proposed', 3 from public.auto_creations where status = 'proposed';
grant select on private.document_activities to authenticated;

-- What search, figures and SQL use: a document's newest extraction that is completed.
create view public.current_extractions with (security_invoker = true) as
  select e.id, d.org_id, d.id as document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks, e.status, e.review_count, e.reviewed_by
  from public.documents as d
  cross join lateral (
    select * from public.extractions as e
    where e.document_id = d.id and e.status = 'completed' and e.precedence < 2
    order by e.created_at desc, e.id desc limit 1) as e;
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;
