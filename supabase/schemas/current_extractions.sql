-- What stands in a document, for those who ask many of them: filters, counts, and the words that lead a search.

-- The current extraction of a document: the newest that is completed. One that an agent has made by itself counts once a
-- person has accepted it.
create view public.current_extractions with (security_invoker = true) as
  select e.id, e.org_id, e.document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks
  from public.extractions as e
  where e.status = 'completed'
    and not exists (
      select from public.auto_creations as a where a.run_id = e.run_id and a.status in ('running', 'proposed'))
    and not exists (
      select from public.extractions as newer
      where newer.document_id = e.document_id and newer.status = 'completed'
        and (newer.created_at, newer.id) > (e.created_at, e.id)
        and not exists (
          select from public.auto_creations as a where a.run_id = newer.run_id and a.status in ('running', 'proposed')));
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;

-- A text as it is compared: without capitals, and with single spaces. (A body that is parsed now needs no search_path, and
-- can be inlined without one.)
create function private.folded(p_text text) returns text
language sql immutable
return lower(btrim(regexp_replace(p_text, '\s+', ' ', 'g')));

-- Whether a value says nothing.
create function private.is_blank(p_value jsonb) returns boolean
language sql immutable
return p_value is null or p_value in ('null'::jsonb, '""'::jsonb, '{}'::jsonb, '[]'::jsonb);

revoke execute on all functions in schema private from public;
grant execute on function private.folded(text), private.is_blank(jsonb) to authenticated;
