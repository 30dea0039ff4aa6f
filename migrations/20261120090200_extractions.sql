-- Extractions: the typed fields of a document, the functions that change them, and the journal that no change escapes.

set local lock_timeout = '10s';
set local statement_timeout = '60s';

create table public.extractions (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null,
  document_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  document_type text check (char_length(document_type) between 1 and 200),
  -- The person who said so, if it was one: then no agent says otherwise without their word.
  document_type_by uuid,
  status text not null default 'in_progress' check (status in ('in_progress', 'completed')),
  -- The JSON Schema (Draft 2020-12) the fields shall follow, if one was given.
  schema jsonb check (jsonb_typeof(schema) = 'object'),
  -- Nested as the document is.
  extracted_fields jsonb not null default '{}' check (jsonb_typeof(extracted_fields) = 'object'),
  -- Flat, keyed by path name ("vendor.name", "items[2].price"): a nested twin could not score both `a` and `a.b`.
  confidence_scores jsonb not null default '{}' check (jsonb_typeof(confidence_scores) = 'object'),
  evidence jsonb not null default '{}' check (jsonb_typeof(evidence) = 'object'),
  -- Leaves that a person set, by path name: {"by": user, "at": time}. Agents may not change them; they come by themselves,
  -- and can only be taken away.
  locks jsonb not null default '{}' check (jsonb_typeof(locks) = 'object'),
  -- Rises by one with each change of extracted_fields.
  version integer not null default 0,
  unique (id, document_id, org_id),
  unique (id, org_id),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
create index extractions_document_id on public.extractions (document_id, created_at desc);
create index extractions_org_id on public.extractions (org_id);

create table public.extraction_journal (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  extraction_id uuid not null,
  version integer not null,
  -- One entry a changed leaf: a scalar, or an empty object or list. `steps` has a letter a step, k for an object's key
  -- and i for a list's index, because {items,0} alone does not tell the two apart.
  path text[] not null,
  steps text not null check (steps ~ '^[ki]+$'),
  -- SQL null: there was, or is, no leaf at this path. (JSON null is a value.)
  old jsonb,
  new jsonb,
  actor text not null check (actor in ('agent', 'user')),
  run_id uuid,
  call_id text,
  created_by uuid,
  created_at timestamptz not null default now(),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index extraction_journal_extraction_id on public.extraction_journal (extraction_id, version, id);

-- Paths -----------------------------------------------------------------------------------------------------------

-- The name of one key below a parent's name: `a` + b → `a.b`; keys that would not read back stand quoted: `["a.b"]`.
-- Twin of fieldmark.domain.paths. (A body that is parsed now needs no search_path, and can be inlined without one.)
create function private.child_name(p_parent text, p_key text) returns text
language sql immutable
return
  case
    when p_key ~ '^[^].["\\\u0001-\u0020\u007f]+( [^].["\\\u0001-\u0020\u007f]+)*$'
      then case when p_parent = '' then p_key else p_parent || '.' || p_key end
    else p_parent || '[' || to_jsonb(p_key)::text || ']'
  end;

-- Every node below the root of a document. What lies beyond the
-- bounds of private.check_json is not followed further: there a long key would be repeated for each of its children.
create function private.nodes(p_doc jsonb)
returns table (path text[], steps text, name text, value jsonb)
language sql immutable set search_path = ''
as $$
  with recursive node as (
    select array[]::text[] as path, '' as steps, '' as name, p_doc as value
    union all
    select
      node.path || child.key,
      node.steps || child.step,
      case child.step
        when 'k' then private.child_name(node.name, child.key)
        else node.name || '[' || child.key || ']'
      end,
      child.value
    from node
    cross join lateral (
      select e.key, 'k' as step, e.value
      from jsonb_each(case jsonb_typeof(node.value) when 'object' then node.value else '{}'::jsonb end) as e
      union all
      select (a.position - 1)::text, 'i', a.value
      from jsonb_array_elements(case jsonb_typeof(node.value) when 'array' then node.value else '[]'::jsonb end)
        with ordinality as a (value, position)
    ) as child
    where length(node.steps) <= 32 and char_length(node.name) <= 1000
  )
  select path, steps, name, value from node where steps <> ''
$$;

-- Every node below the root, containers too, at which two documents differ; null where one has none. Only what differs is
-- followed, so that a change of one field costs the same in a large document. Compared as text, because to jsonb 12.5 and
-- 12.50 are the same, and to a reader they are not. Bounded as private.nodes is.
create function private.changes(p_old jsonb, p_new jsonb)
returns table (path text[], steps text, name text, old jsonb, new jsonb)
language sql immutable set search_path = ''
as $$
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

create function private.is_leaf(p_value jsonb) returns boolean
language sql immutable
return jsonb_typeof(p_value) not in ('object', 'array') or p_value in ('{}'::jsonb, '[]'::jsonb);

-- Refuses what would be small to send and ruinous to keep: 4 MB, 32 levels, 100,000 values, and numbers of 100 digits a
-- side (1e131071 has eight characters, and 131,072 when it is read back).
create function private.check_json(p_value jsonb, p_what text) returns void
language plpgsql immutable set search_path = ''
as $$
declare
  v_values integer;
begin
  if pg_column_size(p_value) > 4194304 then
    raise exception '% may not exceed 4 MB.', p_what using errcode = 'PT422';
  end if;
  if jsonb_path_exists(p_value, 'strict $.**{33}') then
    raise exception '% may be nested at most 32 deep.', p_what using errcode = 'PT422';
  end if;
  -- (jsonb_path_query would take a time that grows with the square of the number.)
  v_values := jsonb_array_length(jsonb_path_query_array(p_value, 'strict $.**.type()'));
  if v_values > 100000 then
    raise exception '% may hold at most 100,000 values.', p_what using errcode = 'PT422';
  end if;
  if exists (
    select from jsonb_array_elements(jsonb_path_query_array(p_value, 'strict $.** ? (@.type() == "number")')) as number
    where abs(number::numeric) >= 1e100 or scale(number::numeric) > 100
  ) then
    raise exception '%: a number may have at most 100 digits before and after its point.', p_what using errcode = 'PT422';
  end if;
end $$;

-- A path as a plain list of 1 to 32 steps. (An array of SQL may also have two dimensions, or begin at index 0.)
create function private.checked_path(p_path text[]) returns text[]
language plpgsql immutable set search_path = ''
as $$
begin
  if coalesce(cardinality(p_path), 0) = 0 then
    raise exception 'The path is empty.' using errcode = 'PT422';
  end if;
  if array_ndims(p_path) > 1 or array_position(p_path, null) is not null then
    raise exception 'A path is a list of texts; a step of this one is not a text.' using errcode = 'PT422';
  end if;
  if cardinality(p_path) > 32 then
    raise exception 'A path may have at most 32 steps.' using errcode = 'PT422';
  end if;
  if (select sum(char_length(step)) from unnest(p_path) as step) > 1000 then
    raise exception 'The path of a field may have at most 1,000 characters.' using errcode = 'PT422';
  end if;
  return array(select step from unnest(p_path) with ordinality as s (step, n) order by n);
end $$;

-- Puts a value at a path: makes missing objects on the way, appends to a list only at its end, refuses everything else.
-- (jsonb_set would do nothing where a parent is missing, append for [999999999], prepend for [-999], and lose the whole
-- column for a SQL null.)
create function private.put(p_doc jsonb, p_path text[], p_value jsonb, p_name text default '') returns jsonb
language plpgsql immutable set search_path = ''
as $$
declare
  v_key text := p_path[1];
  v_rest text[] := p_path[2:];
  v_name text;
  v_index integer;
  v_length integer;
  v_child jsonb;
begin
  if coalesce(array_length(p_path, 1), 0) = 0 then
    return p_value;
  end if;
  -- What does not exist yet becomes a list where its first step is 0, else an object.
  if p_doc is null then
    p_doc := case when v_key = '0' then '[]'::jsonb else '{}'::jsonb end;
  end if;
  case jsonb_typeof(p_doc)
    when 'object' then
      v_name := private.child_name(p_name, v_key);
      v_child := p_doc -> v_key;
      if v_child is null and v_rest[1] ~ '^[0-9]+$' and v_rest[1] <> '0' then
        raise exception
          'Path %: nothing stands at % yet. A list begins with [0]; for an object with the key % write % as a whole.',
          v_name || '[' || v_rest[1] || ']', v_name, v_rest[1], v_name
          using errcode = 'PT422';
      end if;
      return p_doc || jsonb_build_object(v_key, private.put(v_child, v_rest, p_value, v_name));
    when 'array' then
      v_length := jsonb_array_length(p_doc);
      v_name := p_name || '[' || v_key || ']';
      if v_key !~ '^(0|[1-9][0-9]{0,8})$' then
        raise exception 'Path %: % is a list, its items are counted 0 to %.', v_name, p_name, v_length
          using errcode = 'PT422';
      end if;
      v_index := v_key::integer;
      if v_index > v_length then
        raise exception 'Path % is past the end of %: the next item is [%].', v_name, p_name, v_length
          using errcode = 'PT422';
      end if;
      v_child := private.put(p_doc -> v_index, v_rest, p_value, v_name);
      return jsonb_set(p_doc, array[v_key], v_child, true);
    else
      raise exception 'Path %: % already holds the value %, so nothing can stand below it.',
        private.child_name(p_name, v_key), p_name, left(p_doc::text, 80)
        using errcode = 'PT422';
  end case;
end $$;

-- The name of a path as it stands in a document, or null where nothing stands there.
create function private.name_at(p_doc jsonb, p_path text[]) returns text
language plpgsql immutable set search_path = ''
as $$
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

-- Objects merge key by key; every other value, lists included, replaces what stood there.
create function private.merge(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
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

-- A document as it stood at a version, from its journal: the latest leaf of each path, then level by level upwards, the
-- objects and lists that held them. (Putting leaf after leaf would copy the whole document for each.)
create type private.node as (path text[], steps text, value jsonb);

create function private.fields_at(p_extraction_id uuid, p_version integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
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

-- Who writes ---------------------------------------------------------------------------------------------------------

-- Whether this transaction is an agent's call. Whatever else writes, through the service or beside it, is a person.
create function private.is_agent() returns boolean
language sql stable set search_path = ''
as $$ select nullif(current_setting('fieldmark.call_id', true), '') is not null and private.is_service() $$;

-- Before and after a change -----------------------------------------------------------------------------------------

-- Security definer: what the agent may not write becomes a proposal, and nobody has the right to write those.
create function private.check_extraction() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  v_old public.extractions;
  v_said jsonb := coalesce(nullif(current_setting('fieldmark.change', true), ''), '{}')::jsonb;
  v_scores jsonb;
  v_evidence jsonb;
  v_nowhere text[];
  v_removed text[];
  v_held record;
  v_kept text[];
  v_alone boolean;
  v_stale text[] := '{}';
  v_longest integer;
begin
  if tg_op = 'UPDATE' then
    v_old := old;
    new.updated_at := now();
  else
    v_old.version := new.version;
    v_old.extracted_fields := '{}';
    v_old.confidence_scores := '{}';
    v_old.evidence := '{}';
    v_old.locks := '{}';
    perform private.check_json(new.schema, 'A schema');
  end if;
  if new.version <> v_old.version then
    raise exception 'The version of an extraction counts by itself.' using errcode = 'PT422';
  end if;
  new.document_type_by := v_old.document_type_by;
  if new.document_type is distinct from v_old.document_type then
    if not private.is_agent() then
      new.document_type_by := auth.uid();
    elsif v_old.document_type_by is distinct from null
      and v_old.document_type_by is distinct from private.person_behind() then
      new.document_type := v_old.document_type;
    end if;
  end if;
  perform private.check_json(new.extracted_fields, 'The fields of an extraction');
  perform private.check_json(new.confidence_scores, 'The confidences of an extraction');
  -- (The service writes a dozen values for each field, and whoever wrote the fields never saw them.)
  perform private.check_json(
    new.evidence, 'These are too many fields for one extraction, more than about 6,000: their evidence');
  if exists (
    select from jsonb_each(new.confidence_scores)
    where case jsonb_typeof(value) when 'number' then value::numeric not between 0 and 1 else true end
  ) then
    raise exception 'Confidence must be a number from 0.0 to 1.0.' using errcode = 'PT422';
  end if;

  -- Scores and evidence that come with this change, of something that stands.
  v_scores := private.given(v_old.confidence_scores, new.confidence_scores, v_said -> 'confidence_scores');
  v_evidence := private.given(v_old.evidence, new.evidence, v_said -> 'evidence');
  if v_scores <> '{}' or v_evidence <> '{}' then
    v_nowhere := array(
      select key from jsonb_object_keys(v_scores || v_evidence) as key
      except select name from private.nodes(new.extracted_fields)
      order by key);
    if v_said <> '{}' and cardinality(v_nowhere) > 0 then
      raise exception 'There is no field at path % to score or to prove.', left(v_nowhere[1], 200)
        using errcode = 'PT422';
    end if;
    v_scores := v_scores - v_nowhere;
    v_evidence := v_evidence - v_nowhere;
  end if;

  -- One place that goes, with the items behind it closing up: else they would look like changed ones.
  if v_said ? 'removed' then
    v_removed := array(select jsonb_array_elements_text(v_said -> 'removed'));
    if (v_old.extracted_fields #- v_removed)::text <> new.extracted_fields::text then
      v_removed := null;
    end if;
  end if;

  -- What a person set stays as it is, with its score and proof, whatever an agent writes.
  if tg_op = 'UPDATE' and private.is_agent() and old.locks <> '{}' then
    v_kept := private.binding(old.locks);
    for v_held in select * from private.held(old, new.extracted_fields, v_removed) loop
      v_alone := private.is_leaf(v_held.old) and coalesce(private.is_leaf(v_held.new), true);
      perform private.propose(
        old, v_held.path, v_held.name, v_held.old, v_held.new,
        private.at_or_below(v_scores, v_held.name, v_alone), private.at_or_below(v_evidence, v_held.name, v_alone));
      if v_removed is null then
        new.extracted_fields := jsonb_set(new.extracted_fields, v_held.path, v_held.old, true);
      else
        new.extracted_fields := old.extracted_fields;
        v_removed := null;
      end if;
      if not v_alone then
        v_kept := v_kept || array(select jsonb_object_keys(private.at_or_below(v_scores || v_evidence, v_held.name)));
      end if;
    end loop;
    v_scores := v_scores - v_kept;
    v_evidence := v_evidence - v_kept;
  end if;

  new.locks := private.locks_left(v_old.locks, new.locks);
  if new.extracted_fields::text <> v_old.extracted_fields::text then
    if tg_op = 'UPDATE' then
      new.version := old.version + 1;
      -- What an agent shows to be complete by the rules of its schema has to be shown again after it wrote anew.
      if private.is_agent() and old.schema is not null and new.status = old.status then
        new.status := 'in_progress';
      end if;
    end if;
    select array_agg(name), max(char_length(name)) filter (where c.new is not null) into v_stale, v_longest
    from private.changes(v_old.extracted_fields, new.extracted_fields) as c;
    if v_longest > 1000 then
      raise exception 'The path of a field may have at most 1,000 characters.' using errcode = 'PT422';
    end if;
    new.locks := case
      when v_removed is null then private.locks_after(new.locks, v_old.extracted_fields, new.extracted_fields)
      else private.closed_up(
        new.locks - v_stale, new.locks, v_old.extracted_fields, v_removed)
    end;
  end if;
  if v_said ? 'set' and not private.is_agent() then
    new.locks := private.locks_at(
      new.extracted_fields, array(select jsonb_array_elements_text(v_said -> 'set'))) || new.locks;
  end if;
  -- What scores or proves a value goes with it.
  new.confidence_scores := private.still_true(v_old.confidence_scores, new.confidence_scores, v_stale) || v_scores;
  new.evidence := private.still_true(v_old.evidence, new.evidence, v_stale) || v_evidence;
  if v_removed is not null then
    new.confidence_scores := private.closed_up(
      new.confidence_scores, v_old.confidence_scores, v_old.extracted_fields, v_removed);
    new.evidence := private.closed_up(new.evidence, v_old.evidence, v_old.extracted_fields, v_removed);
  end if;
  if tg_op = 'UPDATE' and new.version <> old.version then
    perform private.keep_proposals(new, v_old.extracted_fields, v_removed);
  end if;
  return new;
end $$;

-- The entries by name that come with a change: those that differ, and those that the writer names, since what proves
-- another value may read as before. (Here and below, what may be a stored column is taken apart once: a look into it for
-- each of thousands of keys would decompress it each time.)
create function private.given(p_before jsonb, p_now jsonb, p_named jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(key, n.value), '{}')
  from jsonb_each(p_now) as n left join jsonb_each(p_before) as b using (key)
  where n.value is distinct from b.value or key in (select jsonb_array_elements_text(p_named))
$$;

-- Of the entries by name those that remain: as they were, where the value is too.
create function private.still_true(p_before jsonb, p_now jsonb, p_stale text[]) returns jsonb
language sql immutable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_before)
  where key in (select jsonb_object_keys(p_now)) and key not in (select unnest(p_stale))
$$;

-- The entries of a name and of what stands below it, if anything does. (A key with a dot or a bracket would stand quoted.)
create function private.at_or_below(p_entries jsonb, p_name text, p_alone boolean default false) returns jsonb
language plpgsql immutable set search_path = ''
as $$
begin
  if p_alone then
    return case when p_entries ? p_name then jsonb_build_object(p_name, p_entries -> p_name) else '{}' end;
  end if;
  return (
    select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_entries)
    where key = p_name or starts_with(key, p_name || '.') or starts_with(key, p_name || '['));
end $$;

create trigger check_extraction before insert or update on public.extractions
  for each row execute function private.check_extraction();

-- Security definer: nobody has the right to write the journal, so nobody but this trigger does.
create function private.keep_journal() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  v_before jsonb := case tg_op when 'UPDATE' then old.extracted_fields else '{}'::jsonb end;
  v_run text := nullif(current_setting('fieldmark.run_id', true), '');
  v_call text := nullif(current_setting('fieldmark.call_id', true), '');
  v_agent boolean := private.is_agent();
begin
  insert into public.extraction_journal
    (org_id, extraction_id, version, path, steps, old, new, actor, run_id, call_id, created_by)
  select new.org_id, new.id, new.version, c.path, c.steps,
    case when private.is_leaf(c.old) then c.old end, case when private.is_leaf(c.new) then c.new end,
    case when v_agent then 'agent' else 'user' end,
    case when v_agent then v_run::uuid end, case when v_agent then v_call end, auth.uid()
  from private.changes(v_before, new.extracted_fields) as c
  where private.is_leaf(c.old) or private.is_leaf(c.new)
  order by c.path;
  return null;
end $$;

create trigger keep_journal_of_insert after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.keep_journal();
create trigger keep_journal_of_update after update on public.extractions
  for each row when (new.version <> old.version) execute function private.keep_journal();

-- The functions of the field: security invoker, so the caller's policies hold; also the RPCs of a Supabase front end. ---

create function private.locked_extraction(p_extraction_id uuid) returns public.extractions
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions;
begin
  select * into v_row from public.extractions where id = p_extraction_id for no key update;
  if not found then
    raise exception 'There is no such extraction.' using errcode = 'PT404';
  end if;
  return v_row;
end $$;

-- Writes fields with what scores and proves them, as the value that was meant for `p_set` or without what stood at
-- `p_removed`: one update, one event for those who watch the table. The trigger is told what it could not see in the row.
-- Answers the row as it then stands.
create function private.written(
  p_was public.extractions, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}',
  p_removed text[] default null, p_set text[] default null
) returns public.extractions
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions;
begin
  perform set_config('fieldmark.change', jsonb_strip_nulls(jsonb_build_object(
    'confidence_scores', to_jsonb(array(select jsonb_object_keys(p_confidences))),
    'evidence', to_jsonb(array(select jsonb_object_keys(p_evidence))),
    'removed', to_jsonb(p_removed), 'set', to_jsonb(p_set)))::text, true);
  update public.extractions set
    extracted_fields = p_fields, confidence_scores = confidence_scores || p_confidences,
    evidence = evidence || p_evidence
  where id = p_was.id
  returning * into v_row;
  perform set_config('fieldmark.change', '', true);
  return v_row;
end $$;

-- What a writer is told: the version, each leaf that changed, and under `proposed` the names of what a person's lock kept.
create function private.told(
  p_was public.extractions, p_now public.extractions, p_wanted jsonb, p_removed text[] default null
) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  v_changed jsonb;
  v_proposed jsonb;
begin
  select coalesce(jsonb_agg(
    case when c.new is null
      then jsonb_build_object('path', c.name, 'value', null, 'confidence', null, 'evidence', null, 'removed', true)
      else jsonb_build_object('path', c.name, 'value', c.new, 'confidence', score.value, 'evidence', proof.value)
    end order by c.path), '[]') into v_changed
  from private.changes(p_was.extracted_fields, p_now.extracted_fields) as c
  left join jsonb_each(p_now.confidence_scores) as score on score.key = c.name
  left join jsonb_each(p_now.evidence) as proof on proof.key = c.name
  where private.is_leaf(c.new) or (c.new is null and private.is_leaf(c.old));
  select jsonb_agg(name) into v_proposed from private.held(p_was, p_wanted, p_removed);
  return jsonb_strip_nulls(jsonb_build_object('proposed', v_proposed))
    || jsonb_build_object('version', p_now.version, 'changed', v_changed);
end $$;

create function public.save_extraction_fields(
  p_extraction_id uuid, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_wanted jsonb;
begin
  p_confidences := coalesce(p_confidences, '{}');
  p_evidence := coalesce(p_evidence, '{}');
  if p_fields is null or jsonb_typeof(p_fields) <> 'object' then
    raise exception 'Fields must be an object.' using errcode = 'PT422';
  end if;
  if jsonb_typeof(p_confidences) <> 'object' or jsonb_typeof(p_evidence) <> 'object' then
    raise exception 'Confidences and evidence must be objects keyed by path.' using errcode = 'PT422';
  end if;
  perform private.check_json(p_fields, 'Fields');
  v_wanted := private.merge(v_was.extracted_fields, p_fields);
  v_row := private.written(v_was, v_wanted, p_confidences, p_evidence);
  return jsonb_build_object('value', v_row.extracted_fields) || private.told(v_was, v_row, v_wanted);
end $$;

-- Confidences and evidence by path name, of the value or of what stands in it; p_confidence is short for that of the value.
create function public.update_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null,
  p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_path text[] := private.checked_path(p_field_path);
  v_wanted jsonb;
  v_name text;
begin
  if p_value is null then
    raise exception 'There is no value for path %. To empty a field send JSON null; to delete it, remove it.',
      left(array_to_string(v_path, '.'), 200) using errcode = 'PT422';
  end if;
  -- (NaN is greater than every number, so it is not between any two.)
  if p_confidence not between 0 and 1 then
    raise exception 'Confidence must be 0.0 to 1.0, got %.', left(p_confidence::text, 20) using errcode = 'PT422';
  end if;
  p_confidences := coalesce(p_confidences, '{}');
  p_evidence := coalesce(p_evidence, '{}');
  if jsonb_typeof(p_confidences) <> 'object' or jsonb_typeof(p_evidence) <> 'object' then
    raise exception 'Confidences and evidence must be objects keyed by path.' using errcode = 'PT422';
  end if;
  perform private.check_json(p_value, 'A value');
  v_wanted := private.put(v_was.extracted_fields, v_path, p_value);
  v_name := private.name_at(v_wanted, v_path);
  v_row := private.written(
    v_was, v_wanted,
    case when p_confidence is null then p_confidences else p_confidences || jsonb_build_object(v_name, p_confidence) end,
    p_evidence, p_set => v_path);
  return jsonb_build_object('path', v_name, 'value', v_row.extracted_fields #> v_path)
    || private.told(v_was, v_row, v_wanted);
end $$;

create function public.remove_extraction_field(p_extraction_id uuid, p_field_path text[]) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_path text[] := private.checked_path(p_field_path);
  v_wanted jsonb;
  v_name text := private.name_at(v_was.extracted_fields, v_path);
  v_told jsonb;
begin
  if v_name is null then
    raise exception 'Nothing stands at path %.', left(array_to_string(v_path, '.'), 200) using errcode = 'PT422';
  end if;
  v_wanted := v_was.extracted_fields #- v_path;
  v_row := private.written(v_was, v_wanted, p_removed => v_path);
  v_told := private.told(v_was, v_row, v_wanted, v_path) - 'changed' || jsonb_build_object('path', v_name);
  if v_told ? 'proposed' then
    return v_told;
  end if;
  return v_told || jsonb_build_object('removed', v_was.extracted_fields #> v_path);
end $$;

-- After `p_path` was removed: if it was an item of a list, what stood behind it has moved up by one, and so do its entries:
-- taken as they were before, since the items now hold other values than under the same name before.
create function private.closed_up(p_now jsonb, p_before jsonb, p_was jsonb, p_path text[]) returns jsonb
language plpgsql immutable set search_path = ''
as $$
declare
  v_list_path text[] := p_path[:cardinality(p_path) - 1];
  v_opening text;
  v_index integer;
begin
  if jsonb_typeof(p_was #> v_list_path) <> 'array' then
    return p_now;
  end if;
  v_opening := private.name_at(p_was, v_list_path) || '[';
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
        case when index > v_index
          then v_opening || (index - 1)::text || substr(key, length(v_opening || index::text) + 1)
          else key
        end, value
      from item
      where index <> v_index
    ) as kept);
end $$;

create function public.identify_document(p_extraction_id uuid, p_document_type text) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  if p_document_type is null or char_length(p_document_type) not between 1 and 200 then
    raise exception 'The document type must have 1 to 200 characters.' using errcode = 'PT422';
  end if;
  update public.extractions set document_type = p_document_type where id = v_row.id returning * into v_row;
  return jsonb_build_object('value', v_row.document_type, 'version', v_row.version);
end $$;

create function public.complete_extraction(p_extraction_id uuid) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  update public.extractions set status = 'completed' where id = v_row.id returning * into v_row;
  return jsonb_build_object('value', v_row.status, 'version', v_row.version);
end $$;

-- Confidences and evidence by path name, of what it brings back.
create function public.restore_extraction(
  p_extraction_id uuid, p_version integer, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_wanted jsonb;
begin
  if p_version is null or p_version not between 0 and v_was.version then
    raise exception 'There is no version %: this extraction has versions 0 to %.', p_version, v_was.version
      using errcode = 'PT422';
  end if;
  p_confidences := coalesce(p_confidences, '{}');
  p_evidence := coalesce(p_evidence, '{}');
  if jsonb_typeof(p_confidences) <> 'object' or jsonb_typeof(p_evidence) <> 'object' then
    raise exception 'Confidences and evidence must be objects keyed by path.' using errcode = 'PT422';
  end if;
  v_wanted := private.fields_at(v_was.id, p_version);
  v_row := private.written(v_was, v_wanted, p_confidences, p_evidence);
  return jsonb_build_object('value', v_row.extracted_fields) || private.told(v_was, v_row, v_wanted);
end $$;

-- Rights ------------------------------------------------------------------------------------------------------------

alter table public.extractions enable row level security;
alter table public.extractions force row level security;
alter table public.extraction_journal enable row level security;
alter table public.extraction_journal force row level security;

revoke all on public.extractions, public.extraction_journal from anon, authenticated;
-- Supabase gives every new sequence to everybody, and setval with it.
revoke all on sequence public.extraction_journal_id_seq from anon, authenticated;
grant select, delete, insert (id, org_id, document_id, schema),
  update (document_type, status, extracted_fields, confidence_scores, evidence, locks) on public.extractions to authenticated;
grant select on public.extraction_journal to authenticated;

revoke execute on all functions in schema private from public;
grant execute on function
  private.child_name(text, text), private.nodes(jsonb), private.changes(jsonb, jsonb), private.is_leaf(jsonb),
  private.check_json(jsonb, text), private.checked_path(text[]), private.put(jsonb, text[], jsonb, text),
  private.name_at(jsonb, text[]), private.merge(jsonb, jsonb), private.fields_at(uuid, integer),
  private.is_agent(), private.locked_extraction(uuid),
  private.written(public.extractions, jsonb, jsonb, jsonb, text[], text[]),
  private.told(public.extractions, public.extractions, jsonb, text[])
  to authenticated;
revoke execute on function
  public.save_extraction_fields(uuid, jsonb, jsonb, jsonb),
  public.update_extraction_field(uuid, text[], jsonb, numeric, jsonb, jsonb), public.remove_extraction_field(uuid, text[]),
  public.identify_document(uuid, text), public.complete_extraction(uuid),
  public.restore_extraction(uuid, integer, jsonb, jsonb)
  from public, anon;
grant execute on function
  public.save_extraction_fields(uuid, jsonb, jsonb, jsonb),
  public.update_extraction_field(uuid, text[], jsonb, numeric, jsonb, jsonb), public.remove_extraction_field(uuid, text[]),
  public.identify_document(uuid, text), public.complete_extraction(uuid),
  public.restore_extraction(uuid, integer, jsonb, jsonb)
  to authenticated;

create policy "members read their extractions" on public.extractions
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "members begin extractions of their own" on public.extractions
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and created_by = (select auth.uid()));
create policy "members change their extractions" on public.extractions
  for update to authenticated
  using (org_id in (select private.my_org_ids()));
create policy "owners delete extractions, members their own" on public.extractions
  for delete to authenticated
  using (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_org_ids()) and created_by = (select auth.uid()))
  );
create policy "members read their journals" on public.extraction_journal
  for select to authenticated using (org_id in (select private.my_org_ids()));
