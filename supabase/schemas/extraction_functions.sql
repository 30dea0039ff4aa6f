-- Functions that write fields, also RPCs for a Supabase front end. Security invoker: the caller's policies apply.

create function private.check_is_caller(p_user_id uuid) returns void
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.require(
    coalesce(p_user_id = auth.uid(), true), '`p_user_id` is another user. Leave it out, or send your own id.', 'PT403')
$$;

create function private.locked_extraction(p_extraction_id uuid) returns public.extractions
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions;
begin
  select * into v_row from public.extractions where id = p_extraction_id for no key update;
  perform private.check_found(found, 'extraction');
  return v_row;
end $$;

-- Writes fields with scores and evidence in one update: sets the values at the paths `p_set`, or removes those at
-- `p_removed`, or brings the item back that the version `p_back` removed. Returns the fields as `value`, the version, the changed leaves, and the blocked changes as `proposed`.
create function private.write_fields(
  p_was public.extractions, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}',
  p_removed text[] default null, p_set jsonb default null, p_decided text[] default null, p_back integer default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_now public.extractions;
  v_changed jsonb;
  v_proposed jsonb;
begin
  p_confidences := coalesce(p_confidences, '{}');
  p_evidence := coalesce(p_evidence, '{}');
  perform private.require(
    jsonb_typeof(p_confidences) = 'object' and jsonb_typeof(p_evidence) = 'object',
    'Confidences and evidence must be objects keyed by path.');
  perform set_config('fieldmark.change', jsonb_strip_nulls(jsonb_build_object(
    'confidences', to_jsonb(array(select jsonb_object_keys(p_confidences))),
    'evidence', to_jsonb(array(select jsonb_object_keys(p_evidence))),
    'removed', to_jsonb(p_removed), 'back', p_back, 'set', p_set, 'decided', to_jsonb(p_decided)))::text, true);
  update public.extractions set extracted_fields = p_fields, confidences = confidences || p_confidences,
    evidence = evidence || p_evidence
  where id = p_was.id
  returning * into v_now;
  perform set_config('fieldmark.change', '', true);
  select coalesce(jsonb_agg(
    case when c.new is null
      then jsonb_build_object('path', c.name, 'value', null, 'confidence', null, 'evidence', null, 'removed', true)
      else jsonb_build_object('path', c.name, 'value', c.new, 'confidence', score.value, 'evidence', proof.value)
    end order by c.path), '[]') into v_changed
  from private.changes(p_was.extracted_fields, v_now.extracted_fields) as c
  left join jsonb_each(v_now.confidences) as score on score.key = c.name
  left join jsonb_each(v_now.evidence) as proof on proof.key = c.name
  where private.is_leaf(c.new) or (c.new is null and private.is_leaf(c.old));
  select jsonb_agg(name) into v_proposed from private.blocked_paths(p_was, p_fields, p_removed);
  return jsonb_strip_nulls(jsonb_build_object('proposed', v_proposed))
    || jsonb_build_object('value', v_now.extracted_fields, 'version', v_now.version, 'changed', v_changed);
end $$;

create function public.save_extraction_fields(
  p_extraction_id uuid, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(jsonb_typeof(p_fields) = 'object', 'Fields must be an object.');
  perform private.check_json(p_fields, 'Fields');
  return private.write_fields(v_was, private.merge(v_was.extracted_fields, p_fields), p_confidences, p_evidence);
end $$;

-- Sets the value at a path. Confidences and evidence are keyed by path name, of the value or of values in it.
-- p_confidence: for the value itself. p_value: null empties the field (PostgREST sends a JSON null as SQL null).
-- p_user_id: the caller, for front ends that send it.
create function public.update_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null,
  p_confidences jsonb default '{}', p_evidence jsonb default '{}', p_user_id uuid default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_path text[] := private.checked_path(p_field_path);
  v_wanted jsonb;
  v_name text;
  v_written jsonb;
begin
  perform private.check_is_caller(p_user_id);
  p_value := coalesce(p_value, 'null');
  -- (NaN is greater than every number, so it is not between any two.)
  perform private.require(
    coalesce(p_confidence between 0 and 1, true),
    format('Confidence must be 0.0 to 1.0, got %s.', left(p_confidence::text, 20)));
  perform private.check_json(p_value, 'A value');
  v_wanted := private.set_at_path(v_was.extracted_fields, v_path, p_value);
  v_name := private.path_name(v_wanted, v_path);
  if p_confidence is not null then
    p_confidences := coalesce(p_confidences, '{}') || jsonb_build_object(v_name, p_confidence);
  end if;
  v_written := private.write_fields(
    v_was, v_wanted, p_confidences, p_evidence, p_set => jsonb_build_array(to_jsonb(v_path)));
  return v_written || jsonb_build_object('path', v_name, 'value', v_written -> 'value' #> v_path);
end $$;

create function public.update_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null, p_user_id uuid default null
) returns jsonb language sql set search_path = pg_catalog, pg_temp as $$
  select public.update_extraction_field(p_extraction_id, p_field_path, p_value, p_confidence, p_user_id => p_user_id)
$$;

-- Sets several values in order, all or none: `p_changes` is [{"path": […], "value": …}, …].
create function public.update_extraction_fields(
  p_extraction_id uuid, p_changes jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_wanted jsonb := v_was.extracted_fields;
  v_change jsonb;
  v_path text[];
  v_set jsonb := jsonb '[]';
begin
  perform private.require(
    case jsonb_typeof(p_changes) when 'array' then jsonb_array_length(p_changes) between 1 and 1000 end,
    'Changes must be a list of 1 to 1000.');
  -- Each change copies the fields.
  perform private.require(
    jsonb_array_length(p_changes)::bigint * octet_length(v_wanted::text || p_changes::text) < 200000000,
    'Too many changes for an extraction of this size. Send fewer per request.');
  for v_change in select value from jsonb_array_elements(p_changes) loop
    perform private.require(
      v_change ? 'value' and jsonb_typeof(v_change -> 'path') = 'array',
      'A change is an object with a path (a list of steps) and a value.');
    v_path := private.checked_path(array(select jsonb_array_elements_text(v_change -> 'path')));
    perform private.check_json(v_change -> 'value', 'A value');
    v_wanted := private.set_at_path(v_wanted, v_path, v_change -> 'value');
    v_set := v_set || jsonb_build_array(to_jsonb(v_path));
  end loop;
  return private.write_fields(v_was, v_wanted, p_confidences, p_evidence, p_set => v_set);
end $$;

create function public.remove_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_user_id uuid default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_path text[] := private.checked_path(p_field_path);
  v_name text := private.path_name(v_was.extracted_fields, v_path);
  v_written jsonb;
begin
  perform private.check_is_caller(p_user_id);
  perform private.require(
    v_name is not null, format('There is no value at path %s.', left(array_to_string(v_path, '.'), 200)));
  v_written := private.write_fields(v_was, v_was.extracted_fields #- v_path, p_removed => v_path)
    - '{changed,value}'::text[] || jsonb_build_object('path', v_name);
  if v_written ? 'proposed' then
    return v_written;
  end if;
  return v_written || jsonb_build_object('removed', v_was.extracted_fields #> v_path);
end $$;

create function public.identify_document(p_extraction_id uuid, p_document_type text) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(
    char_length(p_document_type) between 1 and 200, 'The document type must have 1 to 200 characters.');
  update public.extractions set document_type = p_document_type where id = v_row.id returning * into v_row;
  return jsonb_build_object('value', v_row.document_type, 'version', v_row.version);
end $$;

create function public.complete_extraction(p_extraction_id uuid, p_withdraw_to text default null) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform set_config('fieldmark.change', jsonb_build_object('completed', p_withdraw_to is null)::text, true);
  update public.extractions set status = coalesce(p_withdraw_to, 'completed') where id = v_row.id returning * into v_row;
  perform set_config('fieldmark.change', '', true);
  return jsonb_build_object('value', v_row.status, 'version', v_row.version);
end $$;

create function public.restore_extraction(
  p_extraction_id uuid, p_version integer, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(
    p_version between 0 and v_was.version,
    format('There is no version %s: this extraction has versions 0 to %s.', p_version, v_was.version));
  return private.write_fields(v_was, private.fields_at(v_was.id, p_version), p_confidences, p_evidence, p_back => p_version + 1);
end $$;

create function public.unlock_extraction_field(p_extraction_id uuid, p_field_path text[]) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_path text[] := private.checked_path(p_field_path);
  v_name text := private.path_name(v_was.extracted_fields, v_path);
  v_locks text[] := array(
    select key from jsonb_object_keys(private.entries_under(v_was.locks, v_name)) as key order by key);
begin
  perform private.require(
    v_name is not null and cardinality(v_locks) > 0,
    format('There is no lock at path %s.', left(coalesce(v_name, array_to_string(v_path, '.')), 200)));
  perform private.require(not private.is_agent(), 'Only a user can remove a lock.');
  perform set_config('fieldmark.change', jsonb_build_object('unlocked', v_name)::text, true);
  update public.extractions set locks = locks - v_locks where id = v_was.id returning * into v_row;
  perform set_config('fieldmark.change', '', true);
  return jsonb_build_object('path', v_name, 'unlocked', to_jsonb(v_locks), 'version', v_row.version);
end $$;

-- Decides proposals, each once, all or none. Accepted values are written as the user's, in one version; each item
-- removed from a list adds a version. Security definer: proposals have no write privileges.
create function public.decide_extraction_proposals(p_extraction_id uuid, p_accepted uuid[], p_rejected uuid[] default '{}')
returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions;
  v_one public.extraction_proposals;
  v_id uuid;
  v_fields jsonb;
  v_scores jsonb := jsonb '{}';
  v_evidence jsonb := jsonb '{}';
  v_names text[] := array[]::text[];
begin
  select * into v_was from public.extractions
  where id = p_extraction_id and org_id in (select private.my_writable_org_ids()) for no key update;
  perform private.check_found(found, 'extraction');
  perform private.require(not private.is_agent(), 'Only a user can decide proposals.');
  perform private.require(
    cardinality(p_accepted || p_rejected) between 1 and 1000, 'One call decides 1 to 1,000 proposals.');
  loop
    update public.extraction_proposals set status = 'accepted', decided_by = auth.uid(), decided_at = clock_timestamp()
    where id = (
      select id from public.extraction_proposals
      where id = any (p_accepted) and extraction_id = v_was.id and status = 'pending' and new is null
        and jsonb_typeof(v_was.extracted_fields #> path[:cardinality(path) - 1]) = 'array' limit 1)
    returning * into v_one;
    exit when not found;
    perform private.write_fields(v_was, v_was.extracted_fields #- v_one.path, p_removed => v_one.path);
    select * into v_was from public.extractions where id = v_was.id;
    p_accepted := array_remove(p_accepted, v_one.id);
  end loop;
  v_fields := v_was.extracted_fields;
  foreach v_id in array p_rejected || p_accepted loop
    select * into v_one from public.extraction_proposals where id = v_id and extraction_id = v_was.id;
    perform private.check_found(found, 'proposal');
    perform private.require(
      v_one.status = 'pending' and (v_fields #> v_one.path)::text is not distinct from v_one.old::text,
      format('The proposal for %s was already decided, or its value has changed.', left(v_one.name, 200)), 'PT409');
    update public.extraction_proposals set
      status = case when v_id = any (p_rejected) then 'rejected' else 'accepted' end, decided_by = auth.uid(),
      decided_at = clock_timestamp()
    where id = v_id;
    if (v_id = any (p_rejected)) is not true then
      v_fields := case
        when v_one.new is null then v_fields #- v_one.path else jsonb_set(v_fields, v_one.path, v_one.new) end;
      v_scores := v_scores || v_one.confidence_scores;
      v_evidence := v_evidence || v_one.evidence;
      v_names := v_names || v_one.name;
    end if;
  end loop;
  -- (Also if all are rejected: the status of the fields changes.)
  return jsonb_build_object('version',
    private.write_fields(v_was, v_fields, v_scores, v_evidence, p_decided => v_names) -> 'version');
end $$;
