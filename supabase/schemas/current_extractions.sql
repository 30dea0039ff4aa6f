-- The current extraction of each document, for filters, counts and search.

-- A document's current extraction is its newest completed one. A suggested extraction counts once it is accepted.
create view public.current_extractions with (security_invoker = true) as
  select e.id, d.org_id, d.id as document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks, e.status, e.is_unsure, e.reviewed_by
  from public.documents as d
  cross join lateral (
    select * from public.extractions as e
    where e.document_id = d.id and e.status = 'completed'
      and not exists (
        select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
    order by e.created_at desc, e.id desc limit 1) as e;
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;
