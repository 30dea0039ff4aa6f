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
  left join public.schemas as i on i.id = t.schema_id
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
      when i.differences -> e.schema_revid::text is distinct from '{}' and e.schema_revid <> (
        select id from public.schema_versions where schema_id = i.id order by number desc limit 1) then 'stale'
      when e.status = 'completed' then 'done'
      else 'incomplete' end as state
  ) as state;
revoke all on public.stack_table_rows from anon, authenticated;
grant select on public.stack_table_rows to authenticated;
