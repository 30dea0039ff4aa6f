-- Locks of extractions: an agent may change a value that a user set only if that user's message says so.

-- The locks that apply to this write. A user: none. An agent: all but those of the user it writes for.
create function private.binding_locks(p_locks jsonb) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(array_agg(key), '{}') from jsonb_each(p_locks)
  where (select private.is_agent())
    and value ->> 'by' <> coalesce((select private.approving_user())::text, '')
    and not (
      key = any ((select private.paths_allowed_by_message())::text[]) and value ->> 'by' = (select private.message_author())::text)
$$;

-- List items in which a value is replaced or removed, so that remaining values may now belong to a different row.
-- Also how many items and leaves of the list changed. Ignores blanks that are filled, and `p_kept`.
create function private.moved_items(p_old jsonb, p_new jsonb, p_kept text[] default '{}')
returns table (path text[], name text, old jsonb, items bigint, leaves bigint)
language sql immutable set search_path = pg_catalog, pg_temp as $$
  with change as materialized (
    select * from private.changes(p_old, p_new)
  ), below as (
    select c.path[:n] as path, left(c.steps, n) as steps, count(*) as leaves, bool_or(
      private.is_leaf(c.old) and c.old not in ('null', '""', '{}', '[]') and c.old is distinct from c.new
      and c.name not in (select unnest(p_kept))) as gives_way
    from change as c
    cross join lateral generate_series(1, length(c.steps)) as n
    where substr(c.steps, n, 1) = 'i' and (private.is_leaf(c.old) or private.is_leaf(c.new))
    group by c.path[:n], left(c.steps, n)
  ), item as (
    select path, c.name, c.old, gives_way, count(*) over list as items, sum(leaves) over list as leaves
    from below
    join change as c using (path, steps)
    window list as (partition by path[:cardinality(path) - 1], left(steps, -1))
  )
  select path, name, old, items, leaves::bigint from item where gives_way
$$;

-- The parts of a change that a lock blocks, in an order in which they can be restored:
-- - a single leaf;
-- - a whole list, if anything else in it would change: an old cell must not end up in
--   a new row;
-- - a whole object or list that would be removed with a locked leaf in it;
-- - the outermost container, for more than 500 leaves.
create function private.blocked_paths(p_was public.extractions, p_wanted jsonb, p_removed text[])
returns table (path text[], name text, old jsonb, new jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_binding text[] := private.binding_locks(p_was.locks);
  v_name text;
begin
  if cardinality(v_binding) = 0 then
    return;
  end if;
  if p_removed is not null then
    v_name := private.path_name(p_was.extracted_fields, p_removed);
    if private.entries_under(p_was.locks, v_name) ?| v_binding then
      return query select p_removed, v_name, p_was.extracted_fields #> p_removed, null::jsonb;
    end if;
    return;
  end if;
  return query
    with change as materialized (
      select * from private.changes(p_was.extracted_fields, p_wanted)
    ), prefix as materialized (
      -- Each change with the containers around it. (Without values: otherwise the whole document would be
      -- repeated for each leaf.)
      select below.name as below, length(below.steps) as depth, above.name, length(above.steps) as level,
        jsonb_typeof(above.old) = 'array' as list,
        jsonb_typeof(above.old) is distinct from jsonb_typeof(above.new) as replaced
      from change as below
      cross join lateral generate_series(1, length(below.steps)) as n
      join change as above on above.path = below.path[:n] and above.steps = left(below.steps, n)
    ), shifted as (
      -- Items with a locked leaf that may end up in another row, because other items of the list change too.
      select distinct item.name, left(item.name, -length('[' || item.path[cardinality(item.path)] || ']')) as list
      from private.moved_items(p_was.extracted_fields, p_wanted, v_binding) as item
      cross join lateral private.nodes(item.old) as node
      join unnest(v_binding) as lock
        on lock = item.name || case when starts_with(node.name, '[') then '' else '.' end || node.name
      where item.items > 1
    ), touched as (
      select name from change where name in (select unnest(v_binding))
      union
      select name from shifted
    ), free as (
      select name from change
      where (private.is_leaf(old) or private.is_leaf(new))
        and name not in (select name from prefix where below in (select name from touched))
        and name not in (select below from prefix where name in (select name from touched))
    ), mixed as (
      select name from prefix
      where below in (select name from free) and level < depth and list
      union
      select list from shifted
    ), kept as (
      select distinct on (below) name
      from prefix
      where below in (select name from touched)
        and (
          name = below or name in (select name from mixed) or replaced
          -- Each path is restored in the whole document.
          or (level = 1 and (select count(*) from touched) > 500))
      order by below, level
    )
    select path, name, old, new from change where name in (select name from kept)
    order by length(steps), lpad(path[length(steps)], 9, '0') collate "C";
end $$;

-- A lock of a user. `p_was`: the value that an agent had written. `p_is_whole`: the user decided about a list, an object or
-- a call, and so did not look at each of its values.
create function private.lock_of(p_by uuid, p_was jsonb, p_is_whole boolean default false) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('by', p_by, 'at', now())
    || case when p_was not in ('null', '""', '{}', '[]') then jsonb_build_object('was', p_was) else '{}' end
    || case when p_is_whole then jsonb '{"whole": true}' else '{}' end
$$;

-- The locks after a change: the author locks the changed leaves; locks of removed leaves are dropped. A user who approves
-- a call locks the agent's values, except those that they edited.
create function private.locks_after(p_locks jsonb, p_old jsonb, p_new jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_by uuid := case when private.is_agent() then private.approving_user() else auth.uid() end;
  v_message_paths text[] := private.paths_allowed_by_message();
  v_message_author uuid := private.message_author();
  -- The arguments of this call, if the user who approved it edited them.
  v_before_edit jsonb := case when v_by is not null and private.is_agent() then (
    select proposed::jsonb from public.tool_calls where run_id = private.this_run() and id = private.this_call()) end;
  v_is_whole boolean := v_by is not null and private.is_agent() and (
    select count(*) > 1 from private.changes(p_old, p_new) as c where private.is_leaf(c.new));
begin
  return (
    select
      p_locks - coalesce(array_agg(name) filter (where private.is_leaf(c.new) is not true), '{}')
      || coalesce(
        jsonb_object_agg(name, private.lock_of(author, case
          when v_by is null or not private.is_agent() then case when p_locks ? name then p_locks -> name -> 'was'
            when private.is_leaf(c.old) then c.old end
          when v_before_edit is null or jsonb_path_exists(v_before_edit, '$.** ? (@ == $new)', jsonb_build_object('new', c.new))
            then c.new
          else v_before_edit -> 'value' end, v_is_whole))
          filter (where private.is_leaf(c.new) and author is not null), '{}')
    from private.changes(p_old, p_new) as c
    cross join lateral (select coalesce(v_by, case when c.name = any (v_message_paths) then v_message_author end) as author) as a);
end $$;

-- The user's locks on unchanged values that they wrote again: writing a value confirms it.
create function private.locks_at(p_fields jsonb, p_path text[]) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(leaf.name, private.lock_of(auth.uid(), leaf.value, leaf.name <> above)), '{}')
  from private.path_name(p_fields, p_path) as above
  cross join lateral (
    select above as name, p_fields #> p_path as value
    union all
    select above || case when starts_with(node.name, '[') then '' else '.' end || node.name, node.value
    from private.nodes(p_fields #> p_path) as node
  ) as leaf
  where private.is_leaf(leaf.value) and auth.uid() is not null
$$;
