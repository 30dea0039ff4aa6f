-- What is wrong with the fields of extractions: found by the service, stored with the fields.

-- Records what the service found in the fields of one version. Returns whether that is still the current one.
create function private.record_problems(p_extraction_id uuid, p_version integer, p_problems jsonb, p_is_valid boolean)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records problems.', 'PT403');
  update public.extractions set problems = p_problems, is_valid = p_is_valid
  where id = p_extraction_id and version = p_version
    and (auth.uid() is null or org_id in (select private.my_writable_org_ids()));
  return found;
end $$;

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
