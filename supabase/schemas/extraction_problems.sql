-- What is wrong with the fields of extractions: found by the service, stored with the fields.

-- Records what the service found in the fields of one version, and which fields have no value that should have one.
-- Returns whether the version is still the current one.
create function private.record_problems(p_extraction_id uuid, p_version integer, p_problems jsonb, p_is_valid boolean)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records problems.', 'PT403');
  update public.extractions as e set is_valid = p_is_valid, problems = (
      select coalesce(jsonb_object_agg(required, 'missing'), '{}')
      from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
      cross join unnest(s.required_fields) as required
      where v.id = e.schema_revid and not exists (
        select from public.fields where extraction_id = e.id and pattern_key = md5(required)::uuid and kind <> 'blank')
    ) || p_problems
  where id = p_extraction_id and version = p_version
    and (auth.uid() is null or org_id in (select private.my_writable_org_ids()));
  return found;
end $$;

-- Counts again which fields of a schema should have a value: those that at least 80 % of its newest 1,000 completed
-- extractions have, if there are 5; `x-fieldmark.required` of the schema adds and removes some. Fields in lists do not count.
-- If it changes, the extractions without a value there are checked again.
create function private.update_required_fields(p_schema_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema jsonb := (select schema from public.schema_versions where schema_id = p_schema_id order by number desc limit 1);
  v_before text[] := (select required_fields from public.schemas where id = p_schema_id);
  v_extractions uuid[] := array(
    select id from (
      select distinct on (e.document_id) e.id, e.created_at
      from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
      where v.schema_id = p_schema_id and e.status = 'completed'
      order by e.document_id, e.created_at desc, e.id desc) as newest
    order by created_at desc limit 1000);
  v_now text[];
  v_changed text[];
begin
  v_now := array(
    select name from (
      select pattern as name from public.fields
      where extraction_id = any (v_extractions) and indexes = '{}' and kind not in ('container', 'blank')
        and v_schema -> 'properties' ? substring(pattern from '^[^.[]+')
      group by pattern having count(*) >= 0.8 * cardinality(v_extractions) and cardinality(v_extractions) >= 5
      union select key from jsonb_each(v_schema #> '{x-fieldmark,required}') where value = 'true') as usual
    where coalesce(v_schema #> array['x-fieldmark', 'required', name], 'true') = 'true'
    order by name limit 1000);
  if v_now = v_before then
    return;
  end if;
  update public.schemas set required_fields = v_now where id = p_schema_id;
  v_changed := array((select unnest(v_now) except select unnest(v_before))
    union (select unnest(v_before) except select unnest(v_now)));
  update public.extractions as e set is_valid = null
  from public.schema_versions as v
  where v.schema_id = p_schema_id and e.schema_revid = v.id and e.is_valid is not null and exists (
    select from unnest(v_changed) as name where not exists (
      select from public.fields where extraction_id = e.id and pattern_key = md5(name)::uuid and kind <> 'blank'));
end $$;

-- Counts the schemas of extractions that have changed, and of those that runs have written.
create function private.update_required_fields_of(p_extraction_ids uuid[], p_run_ids uuid[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select private.update_required_fields(schema_id) from (
    select distinct v.schema_id from public.extractions as e join public.schema_versions as v on v.id = e.schema_revid
    where e.id = any (p_extraction_ids || array(select extraction_id from public.runs where id = any (p_run_ids)))) as changed
$$;

-- Extractions of all tenants that have not been checked since they changed: a front end wrote them, or the service ended.
-- Those that a run is still writing are left out.
create function private.extractions_to_check(p_limit integer) returns table (
  id uuid, org_id uuid, version integer, schema json, extracted_fields jsonb, evidence jsonb, locks jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.id, e.org_id, e.version, e.schema, e.extracted_fields, e.evidence, e.locks
  from public.extractions as e
  where e.schema is not null and e.is_valid is null and not exists (
    select from public.runs as r where r.extraction_id = e.id
      and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs'))
  order by e.updated_at limit p_limit
$$;
