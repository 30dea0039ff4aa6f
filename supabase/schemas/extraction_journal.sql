-- The journal of extractions: every change of a leaf, recorded by a trigger.

create table public.extraction_journal (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  extraction_id uuid not null,
  version integer not null,
  -- A leaf is a scalar, or an empty object or list. `steps`: a letter a step, k for a key and i for an index.
  path text[] not null,
  steps text not null check (steps ~ '^[ki]+$'),
  -- SQL null: no leaf at this path. (JSON null is a value.)
  old jsonb,
  new jsonb,
  actor text not null check (actor in ('agent', 'user')),
  run_id uuid,
  call_id text,
  created_by uuid,
  -- The user whose message names the value that an agent wrote.
  dictated_by uuid,
  created_at timestamptz not null default now(),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create index extraction_journal_extraction_id on public.extraction_journal (extraction_id, version, id);
select private.protect_table('public.extraction_journal', p_members_read => true);

create function private.keep_journal() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.extraction_journal
    (org_id, extraction_id, version, path, steps, old, new, actor, run_id, call_id, created_by, dictated_by)
  select new.org_id, new.id, new.version, c.path, c.steps,
    case when private.is_leaf(c.old) then c.old end, case when private.is_leaf(c.new) then c.new end,
    case when private.is_agent() then 'agent' else 'user' end, private.this_run(), private.this_call(), auth.uid(),
    case when c.name = any ((select private.paths_allowed_by_message())::text[])
      then (select private.message_author()) end
  from private.changes(case tg_op when 'UPDATE' then old.extracted_fields else '{}'::jsonb end, new.extracted_fields) as c
  where private.is_leaf(c.old) or private.is_leaf(c.new)
  order by c.path;
  return null;
end $$;

create trigger keep_journal_of_insert after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.keep_journal();
create trigger keep_journal_of_update after update on public.extractions
  for each row when (new.version <> old.version) execute function private.keep_journal();

-- The fields at a version: the latest leaf of each path, then level by level the objects and lists that held them.
create type private.node as (path text[], steps text, value jsonb);

create function private.fields_at(p_extraction_id uuid, p_version integer) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_nodes private.node[];
  v_level integer;
begin
  select array_agg(row(latest.path, latest.steps, latest.new)::private.node), max(length(latest.steps))
  into v_nodes, v_level
  from (
    select distinct on (path, steps) path, steps, new
    from public.extraction_journal
    where extraction_id = p_extraction_id and version <= p_version
    order by path, steps, version desc, id desc
  ) as latest
  where latest.new is not null;
  while v_level > 0 loop
    select array_agg(row(up.path, up.steps, up.value)::private.node) into v_nodes
    from (
      select path, steps, value from unnest(v_nodes) where length(steps) < v_level
      union all
      select path[:v_level - 1], left(steps, v_level - 1),
        case right(steps, 1)
          when 'i' then jsonb_agg(value order by lpad(path[v_level], 9, '0') collate "C")
          else jsonb_object_agg(path[v_level], value)
        end
      from unnest(v_nodes)
      where length(steps) = v_level
      group by path[:v_level - 1], left(steps, v_level - 1), right(steps, 1)
    ) as up;
    v_level := v_level - 1;
  end loop;
  return coalesce(v_nodes[1].value, '{}');
end $$;
