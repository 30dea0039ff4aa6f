-- What is wrong with the fields of extractions: found by the service, stored with the fields.

-- The problems of fields without a value that only a second reading has, and of lists with other rows.
create function private.second_reading_problems(p_problems jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_problems) where value = '"second_reading"'
$$;

-- Records what only a second reading has, in place of what an earlier one had. Other problems of a field come first.
create function private.record_second_reading(p_extraction_id uuid, p_others jsonb)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records a second reading.', 'PT403');
  update public.extractions
  set second_reading = p_others, problems =
    (select coalesce(jsonb_object_agg(key, 'second_reading'), '{}') from jsonb_object_keys(p_others) as key)
    || (problems - array(select jsonb_object_keys(private.second_reading_problems(problems))))
  where id = p_extraction_id and org_id in (select private.my_writable_org_ids())
    and (p_others, second_reading, private.second_reading_problems(problems)) <> ('{}', '{}', '{}');
end $$;

-- Records what the service found in the fields of one version, and which fields have no value that should have one.
-- The fields that its schema needs will be counted again. Does nothing if another version is the current one.
create function private.record_problems(p_extraction_id uuid, p_version integer, p_problems jsonb, p_is_valid boolean)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records problems.', 'PT403');
  update public.extractions as e set is_valid = p_is_valid, problems = (
      select coalesce(jsonb_object_agg(required, 'missing'), '{}')
      from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
      cross join unnest(s.required_fields) as required
      where v.id = e.schema_revid and not exists (
        select from public.fields where extraction_id = e.id and pattern_key = md5(required)::uuid and kind <> 'blank')
    ) || private.second_reading_problems(problems) || p_problems
  where id = p_extraction_id and version = p_version
    and (auth.uid() is null or org_id in (select private.my_writable_org_ids()));
  if found then
    -- (A locked schema is being changed, and counted with that; waiting for it could be a deadlock.)
    update public.schemas set recount = true where id = (
      select s.id from public.extractions as e join public.schema_versions as v on v.id = e.schema_revid
      join public.schemas as s on s.id = v.schema_id
      where e.id = p_extraction_id and not s.recount for no key update of s skip locked);
  end if;
end $$;

-- Counts again which fields of a schema should have a value: those that 80 % of its newest 1,000 completed extractions
-- have, if there are 5, until fewer than 75 % have them; `x-fieldmark.required` adds and removes some. Fields in lists do
-- not count. If the result changes, the extractions without a value there are checked again.
create function private.update_required_fields(p_schema_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema jsonb := (select schema from public.schema_versions where schema_id = p_schema_id order by number desc limit 1);
  v_before text[] := (select required_fields from public.schemas where id = p_schema_id);
  -- (Those of the newest versions, so that an index ends the search.)
  v_extractions uuid[] := array(
    select distinct on (document_id) id from (
      select e.* from public.schema_versions as v cross join lateral (
        select id, document_id, created_at from public.extractions
        where schema_revid = v.id and status = 'completed' order by created_at desc, id desc limit 1000) as e
      where v.schema_id = p_schema_id order by v.number desc, e.created_at desc limit 1000) as newest
    order by document_id, created_at desc, id desc);
  v_now text[];
  v_changed text[];
begin
  v_now := array(
    select name from (
      select pattern as name from unnest(v_extractions) as e (id) cross join lateral (
        select pattern from public.fields
        where row_key = uuid_hash_extended(e.id, hash_array_extended('{}'::integer[], 0)) and extraction_id = e.id
          and indexes = '{}' and kind not in ('container', 'blank') offset 0) as f
      where v_schema -> 'properties' ? substring(pattern from '^[^.[]+')
      group by pattern having cardinality(v_extractions) >= 5
        and count(*) >= cardinality(v_extractions) * case when pattern = any (v_before) then 0.75 else 0.8 end
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

-- Returns the schemas of all tenants with extractions that were checked since the last call.
create function private.schemas_to_count() returns setof uuid
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.schemas set recount = false
  where id in (select id from public.schemas where recount limit 100 for no key update skip locked) returning id
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
