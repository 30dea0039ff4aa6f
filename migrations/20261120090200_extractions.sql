-- Extractions: the typed fields of a document, the functions that change them, and the journal that no change escapes.

create table public.extractions (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null,
  document_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  document_type text check (char_length(document_type) between 1 and 200),
  status text not null default 'in_progress' check (status in ('in_progress', 'completed')),
  -- The JSON Schema (Draft 2020-12) the fields shall follow, if one was given.
  schema jsonb check (jsonb_typeof(schema) = 'object'),
  -- Nested as the document is.
  extracted_fields jsonb not null default '{}' check (jsonb_typeof(extracted_fields) = 'object'),
  -- Flat, keyed by path name ("vendor.name", "items[2].price"): a nested twin could not score both `a` and `a.b`.
  confidence_scores jsonb not null default '{}' check (jsonb_typeof(confidence_scores) = 'object'),
  evidence jsonb not null default '{}' check (jsonb_typeof(evidence) = 'object'),
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
-- Twin of fieldmark.domain.paths.
create function private.child_name(p_parent text, p_key text) returns text
language sql immutable set search_path = ''
as $$
  select case
    when p_key ~ '^[^].["\\\u0001-\u0020\u007f]+( [^].["\\\u0001-\u0020\u007f]+)*$'
      then case when p_parent = '' then p_key else p_parent || '.' || p_key end
    else p_parent || '[' || to_jsonb(p_key)::text || ']'
  end
$$;

-- Every node below the root of a document: its path, steps, name, value, and whether it is a leaf.
create function private.nodes(p_doc jsonb)
returns table (path text[], steps text, name text, value jsonb, leaf boolean)
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
  )
  select path, steps, name, value,
    jsonb_typeof(value) not in ('object', 'array') or value in ('{}'::jsonb, '[]'::jsonb)
  from node
  where steps <> ''
$$;

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
  if v_key is null then
    raise exception 'A step of the path is null.' using errcode = 'PT422';
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
        raise exception 'Path % is past the end of %: it has no items yet.', v_name || '[' || v_rest[1] || ']', v_name
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
        (select jsonb_object_agg(key, private.merge(p_old -> key, value)) from jsonb_each(p_new)), '{}'::jsonb)
    else p_new
  end
$$;

-- A document as it stood at a version, from its journal.
create function private.fields_at(p_extraction_id uuid, p_version integer) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  v_doc jsonb := '{}';
  v_leaf record;
  v_depth integer;
begin
  for v_leaf in
    select latest.path, latest.steps, latest.new
    from (
      select distinct on (path, steps) path, steps, new
      from public.extraction_journal
      where extraction_id = p_extraction_id and version <= p_version
      order by path, steps, version desc, id desc
    ) as latest
    where latest.new is not null
    -- Lists fill from their first item on.
    order by array(
      select case substr(latest.steps, n::integer, 1) when 'i' then lpad(step, 9, '0') else step end
      from unnest(latest.path) with ordinality as s (step, n)
    )
  loop
    -- Containers on the way, each as the object or list that it was.
    for v_depth in 1 .. length(v_leaf.steps) - 1 loop
      if v_doc #> v_leaf.path[1:v_depth] is null then
        v_doc := private.put(v_doc, v_leaf.path[1:v_depth],
          case substr(v_leaf.steps, v_depth + 1, 1) when 'i' then '[]'::jsonb else '{}'::jsonb end);
      end if;
    end loop;
    v_doc := private.put(v_doc, v_leaf.path, v_leaf.new);
  end loop;
  return v_doc;
end $$;

-- Before and after a change -----------------------------------------------------------------------------------------

create function private.check_extraction() returns trigger
language plpgsql set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' and new.version <> old.version then
    raise exception 'The version of an extraction counts by itself.' using errcode = 'PT422';
  end if;
  if pg_column_size(new.extracted_fields) > 4194304 then
    raise exception 'The fields of one extraction may not exceed 4 MB.' using errcode = 'PT422';
  end if;
  if tg_op = 'INSERT' or new.extracted_fields is distinct from old.extracted_fields then
    if exists (select from private.nodes(new.extracted_fields) where length(steps) > 32) then
      raise exception 'Fields may be nested at most 32 deep.' using errcode = 'PT422';
    end if;
  end if;
  if exists (
    select from jsonb_each(new.confidence_scores)
    where jsonb_typeof(value) <> 'number' or value::text::numeric not between 0 and 1
  ) then
    raise exception 'Confidence must be a number from 0.0 to 1.0.' using errcode = 'PT422';
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := now();
    if new.extracted_fields is distinct from old.extracted_fields then
      new.version := old.version + 1;
      -- What scores or proves a value goes with it.
      new.confidence_scores := private.only_nodes_of(new.extracted_fields, new.confidence_scores);
      new.evidence := private.only_nodes_of(new.extracted_fields, new.evidence);
    end if;
  end if;
  return new;
end $$;

create function private.only_nodes_of(p_doc jsonb, p_by_name jsonb) returns jsonb
language sql immutable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(key, value), '{}'::jsonb)
  from jsonb_each(p_by_name)
  where key in (select name from private.nodes(p_doc))
$$;

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
  v_agent boolean := v_call is not null and private.is_service();
begin
  insert into public.extraction_journal
    (org_id, extraction_id, version, path, steps, old, new, actor, run_id, call_id, created_by)
  select new.org_id, new.id, new.version, path, steps, was.value, now.value,
    case when v_agent then 'agent' else 'user' end,
    case when v_agent then v_run::uuid end, case when v_agent then v_call end, auth.uid()
  from (select path, steps, value from private.nodes(v_before) where leaf) as was
  full join (select path, steps, value from private.nodes(new.extracted_fields) where leaf) as now using (path, steps)
  where was.value is distinct from now.value
  order by path;
  return null;
end $$;

create trigger keep_journal_of_insert after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.keep_journal();
create trigger keep_journal_of_update after update on public.extractions
  for each row when (new.extracted_fields is distinct from old.extracted_fields) execute function private.keep_journal();

-- The functions of the field: security invoker, so the caller's policies hold; also the RPCs of a Supabase front end. ---

create function private.locked_extraction(p_extraction_id uuid) returns public.extractions
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions;
begin
  select * into v_row from public.extractions where id = p_extraction_id for update;
  if not found then
    raise exception 'There is no such extraction.' using errcode = 'PT404';
  end if;
  return v_row;
end $$;

create function public.save_extraction_fields(
  p_extraction_id uuid, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  if p_fields is null or jsonb_typeof(p_fields) <> 'object' then
    raise exception 'Fields must be an object.' using errcode = 'PT422';
  end if;
  if jsonb_typeof(coalesce(p_confidences, '{}')) <> 'object' or jsonb_typeof(coalesce(p_evidence, '{}')) <> 'object' then
    raise exception 'Confidences and evidence must be objects keyed by path.' using errcode = 'PT422';
  end if;
  -- A value that is written anew keeps no score and no proof of the value it replaces.
  update public.extractions set
    extracted_fields = private.merge(extracted_fields, p_fields),
    confidence_scores = (confidence_scores - array(select name from private.nodes(p_fields) where leaf))
      || coalesce(p_confidences, '{}'),
    evidence = (evidence - array(select name from private.nodes(p_fields) where leaf)) || coalesce(p_evidence, '{}')
  where id = v_row.id
  returning * into v_row;
  return jsonb_build_object('value', v_row.extracted_fields, 'version', v_row.version);
end $$;

create function public.update_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null,
  p_evidence jsonb default null
) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
  v_doc jsonb;
  v_name text;
  v_stale text[];
begin
  if coalesce(array_length(p_field_path, 1), 0) = 0 then
    raise exception 'The path is empty.' using errcode = 'PT422';
  end if;
  if p_value is null then
    raise exception 'There is no value for path %. To empty a field send JSON null; to delete it, remove it.',
      array_to_string(p_field_path, '.') using errcode = 'PT422';
  end if;
  if p_confidence is not null and (p_confidence = 'NaN' or p_confidence not between 0 and 1) then
    raise exception 'Confidence must be 0.0 to 1.0, got %.', p_confidence using errcode = 'PT422';
  end if;
  v_doc := private.put(v_row.extracted_fields, p_field_path, p_value);
  v_name := private.name_at(v_doc, p_field_path);
  v_stale := array(
    select key from jsonb_object_keys(v_row.confidence_scores || v_row.evidence) as key
    where key = v_name or starts_with(key, v_name || '.') or starts_with(key, v_name || '['));
  update public.extractions set
    extracted_fields = v_doc,
    confidence_scores = confidence_scores - v_stale
      || case when p_confidence is null then '{}' else jsonb_build_object(v_name, p_confidence) end,
    evidence = evidence - v_stale
      || case when p_evidence is null then '{}' else jsonb_build_object(v_name, p_evidence) end
  where id = v_row.id
  returning * into v_row;
  return jsonb_build_object(
    'path', v_name, 'value', v_row.extracted_fields #> p_field_path, 'version', v_row.version);
end $$;

create function public.remove_extraction_field(p_extraction_id uuid, p_field_path text[]) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
  v_name text := private.name_at(v_row.extracted_fields, p_field_path);
  v_parent_path text[] := p_field_path[1:array_length(p_field_path, 1) - 1];
  v_parent text;
  v_index integer;
  v_removed jsonb := v_row.extracted_fields #> p_field_path;
begin
  if coalesce(array_length(p_field_path, 1), 0) = 0 then
    raise exception 'The path is empty.' using errcode = 'PT422';
  end if;
  if v_name is null then
    raise exception 'Nothing stands at path %.', array_to_string(p_field_path, '.') using errcode = 'PT422';
  end if;
  v_row.confidence_scores := private.without(v_row.confidence_scores, v_name);
  v_row.evidence := private.without(v_row.evidence, v_name);
  if jsonb_typeof(v_row.extracted_fields #> v_parent_path) = 'array' then
    v_parent := private.name_at(v_row.extracted_fields, v_parent_path);
    v_index := p_field_path[array_length(p_field_path, 1)]::integer;
    v_row.confidence_scores := private.closed_up(v_row.confidence_scores, v_parent, v_index);
    v_row.evidence := private.closed_up(v_row.evidence, v_parent, v_index);
  end if;
  update public.extractions set
    extracted_fields = extracted_fields #- p_field_path,
    confidence_scores = v_row.confidence_scores,
    evidence = v_row.evidence
  where id = v_row.id
  returning * into v_row;
  return jsonb_build_object('path', v_name, 'removed', v_removed, 'version', v_row.version);
end $$;

-- Without the entries at a name and below it.
create function private.without(p_by_name jsonb, p_name text) returns jsonb
language sql immutable set search_path = ''
as $$
  select p_by_name - array(
    select key from jsonb_object_keys(p_by_name) as key
    where key = p_name or starts_with(key, p_name || '.') or starts_with(key, p_name || '['))
$$;

-- After item `p_index` of a list went: what stood behind it moves up by one.
create function private.closed_up(p_by_name jsonb, p_list text, p_index integer) returns jsonb
language sql immutable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(
    case
      when starts_with(key, p_list || '[') and substr(key, length(p_list) + 2) ~ '^[0-9]+\]'
        and substring(substr(key, length(p_list) + 2) from '^[0-9]+')::integer > p_index
      then p_list || '[' || (substring(substr(key, length(p_list) + 2) from '^[0-9]+')::integer - 1)::text
        || regexp_replace(substr(key, length(p_list) + 2), '^[0-9]+', '')
      else key
    end, value), '{}'::jsonb)
  from jsonb_each(p_by_name)
$$;

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

create function public.restore_extraction(p_extraction_id uuid, p_version integer) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
  v_doc jsonb;
  v_kept text[];
begin
  if p_version is null or p_version not between 0 and v_row.version then
    raise exception 'There is no version %: this extraction has versions 0 to %.', p_version, v_row.version
      using errcode = 'PT422';
  end if;
  v_doc := private.fields_at(v_row.id, p_version);
  -- Scores and evidence stay with the values that do not change by this.
  v_kept := array(
    select name from private.nodes(v_doc) intersect
    select was.name from private.nodes(v_row.extracted_fields) as was
    join private.nodes(v_doc) as is_now on is_now.name = was.name and is_now.value = was.value);
  update public.extractions set
    extracted_fields = v_doc,
    confidence_scores = coalesce(
      (select jsonb_object_agg(key, value) from jsonb_each(confidence_scores) where key = any (v_kept)), '{}'),
    evidence = coalesce((select jsonb_object_agg(key, value) from jsonb_each(evidence) where key = any (v_kept)), '{}')
  where id = v_row.id
  returning * into v_row;
  return jsonb_build_object('value', v_row.extracted_fields, 'version', v_row.version);
end $$;

-- Rights ------------------------------------------------------------------------------------------------------------

alter table public.extractions enable row level security;
alter table public.extractions force row level security;
alter table public.extraction_journal enable row level security;
alter table public.extraction_journal force row level security;

revoke all on public.extractions, public.extraction_journal from anon, authenticated;
grant select, delete, insert (id, org_id, document_id, schema),
  update (document_type, status, extracted_fields, confidence_scores, evidence) on public.extractions to authenticated;
grant select on public.extraction_journal to authenticated;

revoke execute on all functions in schema private from public;
grant execute on function
  private.child_name(text, text), private.nodes(jsonb), private.put(jsonb, text[], jsonb, text),
  private.name_at(jsonb, text[]), private.merge(jsonb, jsonb), private.fields_at(uuid, integer),
  private.only_nodes_of(jsonb, jsonb), private.locked_extraction(uuid), private.without(jsonb, text),
  private.closed_up(jsonb, text, integer)
  to authenticated;
revoke execute on function
  public.save_extraction_fields(uuid, jsonb, jsonb, jsonb),
  public.update_extraction_field(uuid, text[], jsonb, numeric, jsonb), public.remove_extraction_field(uuid, text[]),
  public.identify_document(uuid, text), public.complete_extraction(uuid), public.restore_extraction(uuid, integer)
  from public, anon;
grant execute on function
  public.save_extraction_fields(uuid, jsonb, jsonb, jsonb),
  public.update_extraction_field(uuid, text[], jsonb, numeric, jsonb), public.remove_extraction_field(uuid, text[]),
  public.identify_document(uuid, text), public.complete_extraction(uuid), public.restore_extraction(uuid, integer)
  to authenticated;

create policy "members read their extractions" on public.extractions
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "members begin extractions of their own" on public.extractions
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and created_by = (select auth.uid()));
create policy "members change their extractions" on public.extractions
  for update to authenticated
  using (org_id in (select private.my_org_ids())) with check (org_id in (select private.my_org_ids()));
create policy "owners delete extractions, members their own" on public.extractions
  for delete to authenticated
  using (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_org_ids()) and created_by = (select auth.uid()))
  );
create policy "members read their journals" on public.extraction_journal
  for select to authenticated using (org_id in (select private.my_org_ids()));
