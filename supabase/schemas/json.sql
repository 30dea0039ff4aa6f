-- JSON paths: names, values at a path, and differences between two documents. Pure functions.

-- The name of a key below a parent: `a` + b → `a.b`. A key that could not be parsed back is quoted: `["a.b"]`.
-- Same rules as fieldmark.domain.paths.
create function private.child_name(p_parent text, p_key text) returns text
language sql immutable set search_path = pg_catalog, pg_temp return
  case
    when p_key ~ '^[^].["\\\u0001-\u0020\u007f]+( [^].["\\\u0001-\u0020\u007f]+)*$'
      then case when p_parent = '' then p_key else p_parent || '.' || p_key end
    else p_parent || '[' || to_jsonb(p_key)::text || ']'
  end;

-- All nodes below the root, containers included, at which two documents differ; null for a missing node. Descends only
-- into nodes that differ, so a change of one field costs the same in a large document. Compares text, because jsonb treats
-- 12.5 and 12.50 as equal. Stops at the bounds of private.check_json:
-- beyond them a long key would be repeated for each child.
create function private.changes(p_old jsonb, p_new jsonb)
returns table (path text[], steps text, name text, old jsonb, new jsonb)
language sql immutable set search_path = pg_catalog, pg_temp as $$
  with recursive node as (
    select array[]::text[] as path, '' as steps, '' as name, p_old as old, p_new as new
    union all
    select
      node.path || child.key,
      node.steps || child.step,
      case child.step
        when 'k' then private.child_name(node.name, child.key)
        else node.name || '[' || child.key || ']'
      end,
      child.old, child.new
    from node
    cross join lateral (
      select key, 'k' as step, o.value as old, n.value as new
      from jsonb_each(case jsonb_typeof(node.old) when 'object' then node.old else '{}'::jsonb end) as o
      full join jsonb_each(case jsonb_typeof(node.new) when 'object' then node.new else '{}'::jsonb end) as n using (key)
      where o.value::text is distinct from n.value::text
      union all
      select (position - 1)::text, 'i', o.value, n.value
      from jsonb_array_elements(case jsonb_typeof(node.old) when 'array' then node.old else '[]'::jsonb end)
        with ordinality as o (value, position)
      full join jsonb_array_elements(case jsonb_typeof(node.new) when 'array' then node.new else '[]'::jsonb end)
        with ordinality as n (value, position) using (position)
      where o.value::text is distinct from n.value::text
    ) as child
    where length(node.steps) <= 32 and char_length(node.name) <= 1000
  )
  select path, steps, name, old, new from node where steps <> ''
$$;

create function private.nodes(p_doc jsonb) returns table (path text[], steps text, name text, value jsonb)
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select path, steps, name, new from private.changes(null, p_doc) $$;

create function private.is_leaf(p_value jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return jsonb_typeof(p_value) not in ('object', 'array') or p_value in ('{}'::jsonb, '[]'::jsonb);

-- Rejects JSON that is costly to store: more than 4 MB, 32 levels or 100,000 values, and numbers of more
-- than 100 digits a side (1e131071 has eight characters, and 131,072 when it is read back). With p_exact also fractions
-- with more digits than a double holds: programs that read JSON would lose some.
create function private.check_json(p_value jsonb, p_what text, p_exact boolean default false) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp set extra_float_digits = 1 as $$
declare
  v_fault text := case
    when pg_column_size(p_value) > 4194304 then ' may not exceed 4 MB.'
    when jsonb_path_exists(p_value, 'strict $.**{33}') then ' may be nested at most 32 deep.'
    -- (jsonb_path_query would take quadratic time.)
    when jsonb_array_length(jsonb_path_query_array(p_value, 'strict $.**.type()')) > 100000
      then ' may hold at most 100,000 values.'
    when exists (
      select from jsonb_array_elements(jsonb_path_query_array(p_value, 'strict $.** ? (@.type() == "number")')) as number
      where abs(number::numeric) >= 1e100 or scale(number::numeric) > 100
    ) then ': a number may have at most 100 digits before and after its point.'
    when p_exact and exists (
      select from jsonb_array_elements(jsonb_path_query_array(p_value, 'strict $.** ? (@.type() == "number")')) as number
      where number::numeric <> trunc(number::numeric) and number::text::float8::text::numeric <> number::numeric
    ) then ': a number has more digits than a JSON number keeps. Write it as text.'
  end;
begin
  perform private.require(v_fault is null, p_what || v_fault);
end $$;

-- Returns the path as a plain list of 1 to 32 steps. (A SQL array may have two dimensions, or start at index 0.)
create function private.checked_path(p_path text[]) returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_fault text := case
    when coalesce(cardinality(p_path), 0) = 0 then 'The path is empty.'
    when array_ndims(p_path) > 1 or array_position(p_path, null) is not null
      then 'A path is a list of texts; a step of this one is not a text.'
    when cardinality(p_path) > 32 then 'A path may have at most 32 steps.'
    when (select sum(char_length(step)) from unnest(p_path) as step) > 1000
      then 'The path of a field may have at most 1,000 characters.'
  end;
begin
  perform private.require(v_fault is null, v_fault);
  return array(select step from unnest(p_path) with ordinality as s (step, n) order by n);
end $$;

-- Sets a value at a path by jsonb_set, after the checks that it lacks (it ignores a missing parent, appends for
-- [999999999], and prepends for [-999]). Missing objects and lists are created; a null counts as missing.
create function private.set_at_path(p_doc jsonb, p_path text[], p_value jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_around jsonb := p_doc;
  v_around_name text := '';
  v_name text;
  v_key text;
begin
  for v_depth in 1..cardinality(p_path) loop
    v_key := p_path[v_depth];
    -- A missing container becomes a list if its first step is 0, otherwise an object.
    if v_around is null or v_around = 'null' then
      if v_key ~ '^[0-9]+$' and v_key <> '0' then
        raise exception
          'Path %: there is no value at % yet. A list starts with [0]; for an object with the key % write % as a whole.',
          v_around_name || '[' || v_key || ']', v_around_name, v_key, v_around_name using errcode = 'PT422';
      end if;
      v_around := case when v_key = '0' then jsonb '[]' else jsonb '{}' end;
      p_doc := jsonb_set(p_doc, p_path[:v_depth - 1], v_around);
    end if;
    case jsonb_typeof(v_around)
      when 'object' then
        v_name := private.child_name(v_around_name, v_key);
      when 'array' then
        v_name := v_around_name || '[' || v_key || ']';
        if v_key !~ '^(0|[1-9][0-9]{0,8})$' then
          raise exception 'Path %: % is a list. Write an index in brackets, from [0] to [%], the next free one.',
            v_name, v_around_name, jsonb_array_length(v_around) using errcode = 'PT422';
        elsif v_key::integer > jsonb_array_length(v_around) then
          raise exception 'Path % is past the end of %: the next item is [%].',
            v_name, v_around_name, jsonb_array_length(v_around) using errcode = 'PT422';
        end if;
      else
        raise exception 'Path %: % already contains the value %, so there can be no value below it.',
          private.child_name(v_around_name, v_key), v_around_name, left(v_around::text, 80) using errcode = 'PT422';
    end case;
    v_around := p_doc #> p_path[:v_depth];
    v_around_name := v_name;
  end loop;
  return jsonb_set(p_doc, p_path, p_value);
end $$;

create function private.path_name(p_doc jsonb, p_path text[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_name text := '';
  v_step text;
begin
  foreach v_step in array p_path loop
    case jsonb_typeof(p_doc)
      when 'object' then
        v_name := private.child_name(v_name, v_step);
        p_doc := p_doc -> v_step;
      when 'array' then
        if v_step !~ '^(0|[1-9][0-9]{0,8})$' then
          return null;
        end if;
        v_name := v_name || '[' || v_step || ']';
        p_doc := p_doc -> v_step::integer;
      else
        return null;
    end case;
    if p_doc is null then
      return null;
    end if;
  end loop;
  return v_name;
end $$;

-- Merges objects key by key. Every other value, lists included, replaces the old one.
create function private.merge(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when jsonb_typeof(p_old) = 'object' and jsonb_typeof(p_new) = 'object' then
      p_old || coalesce(
        (
          select jsonb_object_agg(
            key, case jsonb_typeof(value) when 'object' then private.merge(p_old -> key, value) else value end)
          from jsonb_each(p_new)
        ), '{}'::jsonb)
    else p_new
  end
$$;

-- Entries by name -----------------------------------------------------------------------------------------------------
-- Scores, evidence and locks are objects keyed by path name.

-- The entries of a change: those that differ, and those in `p_named`.
create function private.changed_entries(p_before jsonb, p_now jsonb, p_named jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, n.value), '{}')
  from jsonb_each(p_now) as n left join jsonb_each(p_before) as b using (key)
  where n.value is distinct from b.value or key in (select jsonb_array_elements_text(p_named))
$$;

-- The scores in the shape of the fields: {"vendor": {"name": 0.9}}. (The function is called for containers only: a call
-- for each value would take three times as long.)
create function private.nested_scores(p_fields jsonb, p_scores jsonb, p_name text default '') returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if jsonb_typeof(p_fields) = 'array' then
    return (
      select jsonb_agg(case
        when jsonb_typeof(value) in ('object', 'array') then private.nested_scores(value, p_scores, name)
        else p_scores -> name end order by n)
      from jsonb_array_elements(p_fields) with ordinality as item (value, n)
      cross join lateral (select p_name || '[' || n - 1 || ']' as name) as named);
  end if;
  return (
    select jsonb_object_agg(key, case
      when jsonb_typeof(value) in ('object', 'array') then private.nested_scores(value, p_scores, name)
      else p_scores -> name end)
    from jsonb_each(p_fields)
    cross join lateral (select private.child_name(p_name, key) as name offset 0) as named);
end $$;

-- The entries that remain valid because their values did not change.
create function private.unchanged_entries(p_before jsonb, p_now jsonb, p_stale text[]) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_before)
  where key in (select jsonb_object_keys(p_now)) and key not in (select unnest(p_stale))
$$;

-- The entries of a name and of the names below it. (A key with a dot or a bracket is quoted.)
create function private.entries_under(p_entries jsonb, p_name text, p_alone boolean default false) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if p_alone then
    return case when p_entries ? p_name then jsonb_build_object(p_name, p_entries -> p_name) else '{}' end;
  end if;
  return (
    select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_entries)
    where key = p_name or starts_with(key, p_name || '.') or starts_with(key, p_name || '['));
end $$;

-- Moves entries with their list items: one up after an item that is removed, or one down from an item that comes back.
create function private.shift_entries(
  p_now jsonb, p_before jsonb, p_was jsonb, p_path text[], p_is_back boolean default false
) returns jsonb language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_list_path text[] := p_path[:cardinality(p_path) - 1];
  v_opening text;
  v_index integer;
begin
  if jsonb_typeof(p_was #> v_list_path) <> 'array' then
    return p_now;
  end if;
  v_opening := private.path_name(p_was, v_list_path) || '[';
  v_index := p_path[cardinality(p_path)]::integer;
  return (
    with item as (
      select key, value, substring(substr(key, length(v_opening) + 1) from '^([0-9]{1,9})\]')::integer as index
      from jsonb_each(p_before)
      where starts_with(key, v_opening)
    )
    select coalesce(jsonb_object_agg(key, value), '{}'::jsonb) from (
      select key, value from jsonb_each(p_now) where not starts_with(key, v_opening)
      union all
      select
        case when index > v_index or p_is_back and index = v_index
          then v_opening || (index + case when p_is_back then 1 else -1 end) || substr(key, length(v_opening || index::text) + 1)
          else key
        end, value
      from item
      where index <> v_index or p_is_back
    ) as kept);
end $$;
