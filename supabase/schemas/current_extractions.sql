-- Which of a document's extractions count.

-- The extractions that are shown as those of a document: under each schema the first by `precedence`. One without a stored
-- schema counts until there is a later one. A suggested extraction counts once it is accepted.
create view private.live_extractions with (security_invoker = true) as
  select e.id, e.org_id, e.document_id, e.created_at, e.status, e.review_count, e.reviewed_by
  from public.extractions as e left join public.schema_versions as v on v.id = e.schema_revid
  where e.status <> 'failed' and not private.is_proposed(e.run_id) and not exists (
    select from public.extractions as o left join public.schema_versions as w on w.id = o.schema_revid
    where o.document_id = e.document_id and o.status <> 'failed' and (e.schema_revid is null or w.schema_id = v.schema_id)
      and (-o.precedence, o.created_at, o.id) > (-e.precedence, e.created_at, e.id)
      and not private.is_proposed(o.run_id));
grant select on private.live_extractions to authenticated;

-- A document's current extraction is its newest completed one. A suggested extraction counts once it is accepted.
create view public.current_extractions with (security_invoker = true) as
  select e.id, d.org_id, d.id as document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks, e.status, e.review_count, e.reviewed_by
  from public.documents as d
  cross join lateral (
    select * from public.extractions as e
    where e.document_id = d.id and e.status = 'completed'
      and not exists (
        select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
    order by e.created_at desc, e.id desc limit 1) as e;
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;
