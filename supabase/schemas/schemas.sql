-- Schemas: JSON Schemas by name, with all versions. A version never changes.

-- One line of visible characters. The list is that of domain/invisible.py.
create function private.is_name(p_text text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return p_text = btrim(p_text) and char_length(p_text) between 1 and 200
  and p_text !~ ('[[:cntrl:]\u0080-\u009f\u2028\u2029\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f'
    '\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
    '\U000e0000-\U000e0fff]');

create table public.schemas (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  -- Hidden: not listed any more, but still referenced by what was made with it.
  deleted_at timestamptz,
  -- The root run that created it; null if a user did.
  run_id uuid,
  -- Fields that should have a value in each extraction, besides those that the schema requires. They are in
  -- `x-fieldmark.required` of the latest version, or nearly all extractions have one. Maintained by the database.
  required_fields text[] not null default '{}',
  -- Extractions were checked since `required_fields` was counted.
  recount boolean not null default false,
  -- For each of the 50 newest older versions, by its id: how the latest one differs, by private.compare_schemas. In all from
  -- an older version that is not listed. Maintained by update_schema.
  differences jsonb not null default '{}',
  -- Instead of the organisation's.
  max_error numeric check (max_error between 0.001 and 1),
  -- What the looks of people at its values showed: see private.review_policy. Computed by the service.
  review_policy jsonb,
  unique (id, org_id)
);
create unique index schemas_name on public.schemas (org_id, lower(name)) where deleted_at is null;
create index schemas_org_id on public.schemas (org_id, created_at desc, id desc);
create index schemas_recount on public.schemas (id) where recount;
create index schemas_run_id on public.schemas (run_id) where run_id is not null;
select private.protect_table('public.schemas', p_members_read => true);

create table public.schema_versions (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  schema_id uuid not null,
  number integer not null check (number > 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null,
  -- A JSON Schema (Draft 2020-12). Validated by the service, not by the database. `json` keeps the order of its fields.
  schema json not null check (json_typeof(schema) = 'object' and pg_column_size(schema) <= 262144),
  run_id uuid,
  call_id text,
  unique (id, org_id),
  unique (schema_id, number, org_id),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade
);
create index schema_versions_org_id on public.schema_versions (org_id);
select private.protect_table('public.schema_versions', p_members_read => true);
alter table public.documents add foreign key (extract_revid, org_id) references public.schema_versions (id, org_id)
  on delete set null (extract_revid);

-- The root run of this transaction's call; null if a user writes.
create function private.this_root_run() returns uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select root_run_id from public.runs where id = private.this_run());
end $$;

create function private.check_org_writable(p_org_id uuid, p_what text) returns void
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select private.check_found(p_org_id in (select private.my_writable_org_ids()), p_what) $$;

create function private.check_name(p_name text) returns void
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select private.require(private.is_name(p_name), 'A name must be one line of 1 to 200 visible characters.') $$;

-- At most 10,000. Counted without a lock: concurrent requests may create a few more.
create function private.check_item_limit(p_count bigint, p_refusal text) returns void
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select private.require(p_count < 10000, p_refusal, 'PT409', 'too_many') $$;

create function private.check_schema_json(p_schema json) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(json_typeof(p_schema) = 'object', 'A schema must be a JSON object.');
  perform private.check_json(p_schema::jsonb, 'A schema');
  perform private.require(pg_column_size(p_schema) <= 262144, 'A schema may not exceed 256 kB.');
end $$;

-- The text of a JSON value without white space. (jsonb treats two orders of the same fields as equal.)
create function private.compact(p_json json) returns text
language sql immutable set search_path = pg_catalog, pg_temp
return regexp_replace(p_json::text, '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g');

-- Whether two values of a schema differ in more than titles, defaults and examples. A dropped property does not count.
create function private.differ(p_old jsonb, p_new jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when p_old = p_new then false
    when jsonb_typeof(p_old) = 'object' and jsonb_typeof(p_new) = 'object' then exists (
      select from jsonb_each(p_old) as o full join jsonb_each(p_new) as n using (key)
      where case
        -- A property or a definition may have such a name: its value is a schema.
        when key in ('title', 'default', 'examples', '$comment')
          and jsonb_typeof(coalesce(n.value, o.value)) not in ('object', 'boolean') then false
        when key = 'properties' and jsonb_typeof(coalesce(o.value, n.value)) = 'object'
          and jsonb_typeof(coalesce(n.value, o.value)) = 'object' then exists (
          select from jsonb_each(n.value) as f where private.differ(o.value -> f.key, f.value))
        when key = 'required' and jsonb_typeof(coalesce(o.value, '[]')) = 'array'
          and jsonb_typeof(p_old -> 'properties') = 'object' and jsonb_typeof(p_new -> 'properties') = 'object' then
          coalesce(o.value, '[]') - array(
            select jsonb_object_keys(p_old -> 'properties') except select jsonb_object_keys(p_new -> 'properties')
          ) <> coalesce(n.value, '[]')
        else private.differ(o.value, n.value) end)
    when jsonb_typeof(p_old) = 'array' and jsonb_typeof(p_new) = 'array'
      and jsonb_array_length(p_old) = jsonb_array_length(p_new) then exists (
      select from jsonb_array_elements(p_new) with ordinality as one (value, n)
      where private.differ(p_old -> (n::integer - 1), one.value))
    else true end
$$;

-- How a new version of a schema differs from an old one: `added` and `changed` top-level fields, `everything` if a keyword at
-- the root differs that may concern any field, `rules` if the rules do. {}: it does not. The one rule of what is stale and
-- read again: rows, columns and extractions.
create function private.compare_schemas(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp set jit = off as $$
  with recursive parts as (
    select key, p_old -> 'properties' -> key as old, value as new,
      coalesce(p_old -> 'required' ? key, false) <> coalesce(p_new -> 'required' ? key, false) as differs
    from jsonb_each(case jsonb_typeof(p_new -> 'properties') when 'object' then p_new -> 'properties' end)
    union all
    select null, rest[1], rest[2], false from (
      select array_agg(
        schema - '{type,properties,required,description,$schema,$id,$defs,definitions,x-fieldmark}'::text[]
          - array(select key from jsonb_each(schema) where key in ('additionalProperties', 'unevaluatedProperties')
            and jsonb_typeof(value) = 'boolean')
          || jsonb_build_object('grounded', schema -> 'x-fieldmark' -> 'grounded') order by n) as rest
      from unnest(array[p_old, p_new]) with ordinality as version (schema, n)) as root
  ), keywords as (
    select unnest(array['$.**."$ref"', '$.**."$dynamicRef"']::jsonpath[]) as path where p_old <> p_new
  ), targets as materialized (
    -- (The whole schema, for a reference that is not the path of a definition.)
    select ref, coalesce(p_old #> at, p_old) as old, coalesce(p_new #> at, p_new) as new
    from (
      select distinct one #>> '{}' as ref from keywords cross join lateral jsonb_path_query(p_new, path) as one) as refs
    cross join lateral (select string_to_array(nullif(ltrim(ref, '#/'), ''), '/') as at) as found
  ), uses as materialized (
    select ref, one #>> '{}' as used
    from targets cross join keywords cross join lateral jsonb_path_query(new, path) as one
  ), changed_targets as (
    select ref from targets where private.differ(old, new)
    union
    select u.ref from changed_targets as c join uses as u on u.used = c.ref
  ), compared as (
    select key, key is not null and old is null as is_added, differs or private.differ(old, new) or exists (
      select from keywords cross join lateral jsonb_path_query(new, path) as one
      join changed_targets as c on c.ref = one #>> '{}') as is_changed
    from parts)
  select jsonb_strip_nulls(jsonb_build_object(
    'added', jsonb_agg(key) filter (where is_added),
    'changed', jsonb_agg(key) filter (where key is not null and not is_added and is_changed),
    'everything', nullif(bool_or(key is null and is_changed), false),
    'rules', nullif(coalesce(p_old #> '{x-fieldmark,rules}', '[]') <> coalesce(p_new #> '{x-fieldmark,rules}', '[]'), false)))
  from compared
$$;

-- Returns the id of the first version, the `schema_revid`. Security definer: versions are only ever added.
create function public.create_schema(p_org_id uuid, p_name text, p_schema json) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema_id uuid;
  v_revid uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'), private.check_name(p_name),
    private.check_schema_json(p_schema);
  perform private.check_item_limit(
    (select count(*) from public.schemas where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 schemas, the maximum. Delete one first.');
  insert into public.schemas (org_id, name, run_id) values (p_org_id, p_name, private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_schema_id;
  perform private.require(v_schema_id is not null, 'A schema with this name already exists.', 'PT409', 'name_taken');
  insert into public.schema_versions (org_id, schema_id, number, name, schema, run_id, call_id)
  values (p_org_id, v_schema_id, 1, p_name, p_schema, private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Adds a version if anything changes and returns the latest version's id. `p_revid`: the version that must be the latest.
create function public.update_schema(
  p_schema_id uuid, p_name text default null, p_schema json default null, p_revid uuid default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_head public.schemas;
  v_latest public.schema_versions;
  v_revid uuid;
begin
  select * into v_head from public.schemas where id = p_schema_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_head.org_id, 'schema');
  select * into v_latest from public.schema_versions where schema_id = p_schema_id order by number desc limit 1;
  if p_revid is not null and p_revid <> v_latest.id then
    raise exception 'The schema has changed. Load the latest version first.' using errcode = 'PT409', detail = 'version_changed';
  end if;
  p_name := coalesce(p_name, v_latest.name);
  p_schema := coalesce(p_schema, v_latest.schema);
  perform private.check_name(p_name), private.check_schema_json(p_schema);
  if p_name = v_latest.name and private.compact(p_schema) = private.compact(v_latest.schema) then
    return v_latest.id;
  end if;
  perform private.check_item_limit(v_latest.number, 'The schema has 10,000 versions, the maximum. Create a new schema.');
  begin
    update public.schemas set name = p_name where id = p_schema_id;
  exception when unique_violation then
    raise exception 'A schema with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
  insert into public.schema_versions (org_id, schema_id, number, name, schema, run_id, call_id)
  values (
    v_head.org_id, p_schema_id, v_latest.number + 1, p_name, p_schema, private.this_run(), private.this_call())
  returning id into v_revid;
  update public.schemas set differences = (
    select jsonb_object_agg(id, private.compare_schemas(schema::jsonb, p_schema::jsonb))
    from (select id, schema from public.schema_versions where schema_id = p_schema_id and id <> v_revid
      order by number desc limit 50) as older)
  where id = p_schema_id;
  perform private.update_required_fields(p_schema_id);
  return v_revid;
end $$;

-- Hides a schema and returns how many prompts, extractions and stacks refer to it.
create function public.delete_schema(p_schema_id uuid) returns table (prompts bigint, extractions bigint, stacks bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.schemas set deleted_at = now()
  where id = p_schema_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Schema not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_schema(p_schema_id);
end $$;
