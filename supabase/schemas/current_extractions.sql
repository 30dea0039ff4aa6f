-- The current extraction of each document, for filters, counts and search.

-- A document's current extraction is its newest completed one. A suggested extraction counts once it is
-- accepted. (A parsed body needs no search_path and is inlined as one index look-up per document.)
create function private.current_extraction(p_document_id uuid) returns setof public.extractions
language sql stable
begin atomic
  select e.* from public.extractions as e
  where e.document_id = p_document_id and e.status = 'completed'
    and not exists (
      select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
  order by e.created_at desc, e.id desc limit 1;
end;

create view public.current_extractions with (security_invoker = true) as
  select e.id, d.org_id, d.id as document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks
  from public.documents as d cross join lateral private.current_extraction(d.id) as e;
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;

-- A text in lower case with single spaces. (A parsed body needs no search_path and can be inlined.)
create function private.folded(p_text text) returns text language sql immutable
return lower(btrim(regexp_replace(p_text, '\s+', ' ', 'g')));

create function private.is_blank(p_value jsonb) returns boolean language sql immutable
return p_value is null or p_value in ('null'::jsonb, '""'::jsonb, '{}'::jsonb, '[]'::jsonb);
