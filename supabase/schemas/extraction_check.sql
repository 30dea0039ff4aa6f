-- The check of extractions: a trigger that every write into the table passes.

-- Returns the reviewer of an extraction that is being completed, and when they reviewed it: the user who writes, or who
-- approved all writes by agents. No row if there is none.
create function private.review(p_extraction_id uuid) returns table (reviewed_by uuid, reviewed_at timestamptz)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select auth.uid(), now() where not private.is_agent()
  union all
  select (array_agg(call.decided_by order by call.decided_at desc))[1], max(call.decided_at)
  from public.extraction_journal as entry
  left join public.tool_calls as call on call.run_id = entry.run_id and call.id = entry.call_id
  where private.is_agent() and entry.extraction_id = p_extraction_id and entry.actor = 'agent'
  having private.is_agent() and bool_and(call.approved_by is not distinct from 'person')
$$;

-- Security definer: writes that a lock blocks become proposals, a table without write privileges.
create function private.check_extraction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_old public.extractions;
  v_author uuid;
  v_change jsonb := coalesce(nullif(current_setting('fieldmark.change', true), ''), '{}')::jsonb;
  v_set jsonb;
  v_scores jsonb;
  v_evidence jsonb;
  v_missing text[];
  v_removed text[];
  v_back jsonb;
  v_item text;
  v_name text;
  v_blocked record;
  v_kept text[];
  v_is_leaf boolean;
  v_stale text[] := '{}';
  v_written text[];
  v_asked text[] := '{}';
  v_resized text[] := '{}';
  v_longest integer;
  v_accepted boolean;
  v_confirmed jsonb := '{}';
  v_is_proposed boolean := false;
begin
  if tg_op = 'UPDATE' then
    v_old := old;
    new.updated_at := now();
  else
    v_old.version := new.version;
    v_old.extracted_fields := '{}';
    v_old.confidences := '{}';
    v_old.confidence_scores := '{}';
    v_old.evidence := '{}';
    v_old.locks := '{}';
    v_old.problems := '{}';
    v_old.second_reading := '{}';
    v_old.accepted := '{}';
    v_old.min_confidences := '{}';
    v_old.removed_items := '[]';
    perform private.check_json(new.schema::jsonb, 'A schema');
  end if;
  perform private.require(new.version = v_old.version, 'The version of an extraction is set by the database. Leave it out.');
  new.document_type_by := v_old.document_type_by;
  if new.document_type is distinct from v_old.document_type then
    v_author := case when not private.is_agent() then auth.uid() else coalesce(private.approving_user(),
      case when 'document_type' = any (private.paths_allowed_by_message()) then private.message_author() end) end;
    if not private.is_agent() or v_old.document_type_by is null or v_old.document_type_by = v_author then
      new.document_type_by := v_author;
    else
      new.document_type := v_old.document_type;
    end if;
  end if;
  -- (Unchanged values were checked earlier.)
  perform private.check_json(new.extracted_fields, 'The fields of an extraction', true)
  where new.extracted_fields is distinct from v_old.extracted_fields;
  if new.confidence_scores is distinct from v_old.confidence_scores then
    perform private.check_json(new.confidence_scores, 'The confidences of an extraction');
    new.confidences := (
      select coalesce(jsonb_object_agg(name, value), '{}') from private.nodes(new.confidence_scores)
      where private.is_leaf(value) and value <> 'null');
  end if;
  perform private.check_json(new.confidences, 'The confidences of an extraction')
  where new.confidences is distinct from v_old.confidences;
  perform private.check_json(
    new.evidence, 'The extraction has too many fields (the limit is about 6,000): the evidence')
  where new.evidence is distinct from v_old.evidence;
  if new.confidences is distinct from v_old.confidences and exists (
    select from jsonb_each(new.confidences)
    where case jsonb_typeof(value) when 'number' then value::numeric not between 0 and 1 else true end
  ) then
    raise exception 'Confidence must be a number from 0.0 to 1.0.' using errcode = 'PT422';
  end if;

  -- Scores and evidence that come with this change must belong to a field that exists.
  v_scores := private.changed_entries(v_old.confidences, new.confidences, v_change -> 'confidences');
  v_evidence := private.changed_entries(v_old.evidence, new.evidence, v_change -> 'evidence');
  if v_scores <> '{}' or v_evidence <> '{}' then
    v_missing := array(
      select key from jsonb_object_keys(v_scores || v_evidence) as key
      except select name from private.nodes(new.extracted_fields)
      order by key);
    perform private.require(
      v_change = '{}' or cardinality(v_missing) = 0,
      format('There is no field at path %s. Scores and evidence need a field.', left(v_missing[1], 200)));
    v_scores := v_scores - v_missing;
    v_evidence := v_evidence - v_missing;
    -- Only the service may write evidence. (A front end passes on the evidence of an accepted proposal.)
    perform private.require(
      private.is_service() or not exists (
        select from jsonb_each(v_evidence) as e where e.value ->> 'state' = 'found' and not exists (
          select from public.extraction_proposals as p
          where p.extraction_id = new.id and p.status = 'accepted' and p.decided_at >= now()
            and p.evidence -> e.key = e.value and new.extracted_fields #> p.path = p.new)),
      'Only the service writes evidence. Leave it out.', 'PT403');
  end if;

  -- A removed list item: the items after it move up and must not count as changed.
  if v_change ? 'removed' then
    v_removed := array(select jsonb_array_elements_text(v_change -> 'removed'));
    if (v_old.extracted_fields #- v_removed)::text <> new.extracted_fields::text then
      v_removed := null;
    end if;
  -- Or one that a person brings back, with what was stored about it.
  elsif v_change ? 'back' and not private.is_agent() then
    select value, array(select jsonb_array_elements_text(value -> 'path')) into v_back, v_removed
    from jsonb_array_elements(v_old.removed_items)
    where value -> 'version' = v_change -> 'back'
      and (new.extracted_fields #- array(select jsonb_array_elements_text(value -> 'path')))::text = v_old.extracted_fields::text;
    if v_back is not null then
      v_scores := '{}';
      v_evidence := '{}';
    end if;
  end if;

  -- An agent's write keeps locked values, with their scores and evidence.
  if tg_op = 'UPDATE' and private.is_agent() and old.locks <> '{}' then
    v_kept := private.binding_locks(old.locks);
    v_is_proposed := true;
    for v_blocked in select * from private.blocked_paths(old, new.extracted_fields, v_removed) loop
      v_is_leaf := private.is_leaf(v_blocked.old) and coalesce(private.is_leaf(v_blocked.new), true);
      perform private.propose(
        old, v_blocked.path, v_blocked.name, v_blocked.old, v_blocked.new,
        private.entries_under(v_scores, v_blocked.name, v_is_leaf), private.entries_under(v_evidence, v_blocked.name, v_is_leaf));
      if v_removed is null then
        new.extracted_fields := jsonb_set(new.extracted_fields, v_blocked.path, v_blocked.old, true);
      else
        new.extracted_fields := old.extracted_fields;
        v_removed := null;
      end if;
      if not v_is_leaf then
        v_kept := v_kept || array(select jsonb_object_keys(private.entries_under(v_scores || v_evidence, v_blocked.name)));
      end if;
    end loop;
    v_scores := v_scores - v_kept;
    v_evidence := v_evidence - v_kept;
  end if;

  -- Users may remove locks, but not add one or change its owner.
  if v_removed is not null then
    v_item := private.path_name(case when v_back is null then v_old.extracted_fields else new.extracted_fields end, v_removed);
  end if;
  new.locks := case
    when private.is_agent() then v_old.locks else private.unchanged_entries(v_old.locks, new.locks, '{}') end;
  if new.extracted_fields::text <> v_old.extracted_fields::text then
    if tg_op = 'UPDATE' then
      new.version := old.version + 1;
      -- After another write an agent must complete the extraction again. A write into a failed extraction reopens it.
      if new.status = old.status and (old.status = 'failed' or (private.is_agent() and old.schema is not null)) then
        new.status := 'in_progress';
      end if;
    end if;
    v_written := array(
      select private.path_name(new.extracted_fields, array(select jsonb_array_elements_text(path)))
      from jsonb_array_elements(v_change -> 'set') as path
      union all select jsonb_array_elements_text(v_change -> 'decided'));
    if v_removed is not null then
      v_written := v_written || v_item;
    end if;
    -- A write of a part of a list or list item answers no doubt about the whole.
    select coalesce(array_agg(name) filter (where not is_asked), '{}'),
      coalesce(array_agg(name) filter (where is_asked), '{}'), max(char_length(name)) filter (where c.new is not null),
      coalesce(array_agg(name) filter (where jsonb_typeof(c.new) = 'array' and jsonb_path_query_first(c.old, '$.size()')
        is distinct from jsonb_path_query_first(c.new, '$.size()')), '{}')
    into v_stale, v_asked, v_longest, v_resized
    from private.changes(v_old.extracted_fields, new.extracted_fields) as c
    cross join lateral (select c.new is not null and not private.is_leaf(c.new)
      and (v_old.evidence ? c.name or v_old.accepted ? c.name or v_old.problems ? c.name)
      and (v_change = '{}' or cardinality(v_written) > 0)
      and not exists (select from unnest(v_written) as name where private.is_within(c.name, name)) as is_asked) as kept;
    perform private.require(coalesce(v_longest, 0) <= 1000, 'The path of a field may have at most 1,000 characters.');
    new.locks := case
      when v_removed is null then private.locks_after(new.locks, v_old.extracted_fields, new.extracted_fields)
      else private.shift_entries(
        new.locks - v_stale, new.locks, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'locks', '{}')
    end;
  end if;
  if v_change ? 'set' and not private.is_agent() then
    for v_set in select value from jsonb_array_elements(v_change -> 'set') loop
      -- Also objects and lists, which have no locks; but not what is missing in them.
      v_name := private.path_name(new.extracted_fields, array(select jsonb_array_elements_text(v_set)));
      v_confirmed := v_confirmed || (
        select coalesce(jsonb_object_agg(path, coalesce(v_old.problems ->> path, reason)), '{}') from public.fields
        where extraction_id = new.id and status in ('needs_review', 'unclear') and not is_absent
          and (v_old.problems ? path or kind = 'container')
          and private.is_within(path, v_name));
      new.locks := private.locks_at(new.extracted_fields, array(select jsonb_array_elements_text(v_set)))
        || case when new.locks -> v_name ? 'whole' then new.locks - v_name else new.locks end;
    end loop;
    -- So does a value that a user confirms: the next run continues the extraction, and does not start another.
    if v_old.status = 'failed' and new.locks <> '{}' then
      new.status := 'in_progress';
    end if;
  end if;
  new.confidences := private.unchanged_entries(v_old.confidences, new.confidences, v_stale) || v_scores;
  new.evidence := private.unchanged_entries(v_old.evidence, new.evidence, v_stale) || v_evidence;
  -- (What supports a list is its values as they were.)
  new.evidence := (new.evidence - v_asked) || (select coalesce(jsonb_object_agg(key, value - 'supports'), '{}')
    from jsonb_each(new.evidence) where key = any (v_asked) and value ? 'doubts');
  if v_removed is not null then
    new.confidences := private.shift_entries(
      new.confidences, v_old.confidences, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'confidences', '{}');
    new.evidence := private.shift_entries(
      new.evidence, v_old.evidence, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'evidence', '{}');
  end if;
  if new.version <> v_old.version or tg_op = 'INSERT' or new.confidences is distinct from v_old.confidences then
    new.confidence_scores := case new.confidences when '{}' then '{}'
      else jsonb_strip_nulls(private.nested_scores(new.extracted_fields, new.confidences)) end;
  else
    new.confidence_scores := v_old.confidence_scores;
  end if;
  -- (The rows of another reading are named by their indexes.)
  new.second_reading := new.second_reading - v_stale - v_resized;
  new.problems := (new.problems - v_stale) - array(
    select key from jsonb_each(new.problems) where key = any (v_asked) and value <> '"second_reading"');
  -- (A changed status counts for the fields that its schema needs: record_problems.)
  if (new.version, new.schema::text, new.status) is distinct from (v_old.version, v_old.schema::text, v_old.status) then
    new.is_valid := null;
  end if;
  v_accepted := new.status = 'completed' and (v_old.status is distinct from 'completed' or v_change -> 'completed' = 'true');
  new.accepted := case
    when v_accepted and not private.is_agent() then (
      select coalesce(jsonb_object_agg(path, reason), '{}') from public.fields
      where extraction_id = new.id and reason <> 'proposal' and status in ('needs_review', 'unclear', 'accepted'))
    when v_accepted or v_change -> 'completed' = 'false' then '{}'
    -- A user who confirms a value knows what is wrong with it.
    else (v_old.accepted || v_confirmed) - v_stale end;
  if v_change ? 'unlocked' then
    -- A list or list item is no longer kept.
    new.accepted := new.accepted - array(select path from public.fields where extraction_id = new.id and kind = 'container'
      and private.is_within(path, v_change ->> 'unlocked'));
  end if;
  if v_removed is not null then
    new.problems := private.shift_entries(
      new.problems, v_old.problems, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'problems', '{}');
    new.accepted := private.shift_entries(
      new.accepted, v_old.accepted, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'accepted', '{}');
    new.second_reading := private.shift_entries(
      new.second_reading, v_old.second_reading, v_old.extracted_fields, v_removed, v_back is not null)
      || coalesce(v_back -> 'second_reading', '{}');
  end if;
  -- A problem that was solved and comes back is a new one. (A broken rule is a problem of the values that no person set.
  -- Only once a person has set all, it is one of each again.)
  new.accepted := (select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each_text(new.accepted)
    where value not in ('missing', 'breaks_schema', 'breaks_rule') or new.problems ->> key = value
      or value = 'breaks_rule' and new.locks ? key and jsonb_path_exists(new.problems, '$.* ? (@ == "breaks_rule")'));
  new.reviewed_by := v_old.reviewed_by;
  new.reviewed_at := v_old.reviewed_at;
  if v_accepted then
    select coalesce(r.reviewed_by, v_old.reviewed_by), case when r.reviewed_by is null then v_old.reviewed_at else r.reviewed_at end
    into new.reviewed_by, new.reviewed_at from (values (true)) as always left join private.review(new.id) as r on true;
  -- A withdrawn review, a new schema and unapproved writes by an agent need another review.
  elsif v_change -> 'completed' = 'false' or new.schema::text is distinct from v_old.schema::text or (
    new.version <> v_old.version and private.is_agent() and private.approving_user() is null
    and private.paths_allowed_by_message() = '{}') then
    new.reviewed_by := null;
    new.reviewed_at := null;
  end if;
  if tg_op = 'UPDATE' and new.version <> old.version then
    perform private.keep_proposals(
      new, v_old.extracted_fields, v_removed, v_back is not null, array(select jsonb_array_elements_text(v_change -> 'decided')));
  end if;
  if tg_op = 'UPDATE' and v_removed is not null then
    new.removed_items := case
      when v_back is not null then (
        select coalesce(jsonb_agg(value), '[]') from jsonb_array_elements(old.removed_items) where value <> v_back)
      when jsonb_typeof(old.extracted_fields #> v_removed[:cardinality(v_removed) - 1]) = 'array' then
        jsonb_path_query_array(private.removed_item(old, v_removed, new.version) || old.removed_items, '$[0 to 9]')
      else old.removed_items end;
    perform private.shift_audits(new.id, old.extracted_fields, v_removed, v_back -> 'audits');
  end if;
  if tg_op = 'UPDATE' and v_accepted and private.is_agent() and new.schema_revid is not null then
    new.model := coalesce((select model from public.usage where run_id = private.this_run() order by created_at desc limit 1), '');
    select p.min_confidences, p.audit_rate into new.min_confidences, new.audit_rate
    from private.review_policy(new.schema_revid, new.model) as p;
    if new.layout is null and new.audit_rate > 0 then
      new.layout_words := private.layout_words(new.id, new.document_id);
      new.layout := private.layout_of(new.schema_revid, new.layout_words);
    end if;
    new.drawn_to := private.draw_audits(new, old.drawn_to);
  end if;
  if tg_op = 'UPDATE' and (
    new.version <> old.version or v_is_proposed or v_change ? 'decided'
    or (new.evidence, new.confidences, new.locks, new.problems, new.accepted, new.reviewed_at, new.min_confidences, new.drawn_to)
      is distinct from (
        old.evidence, old.confidences, old.locks, old.problems, old.accepted, old.reviewed_at, old.min_confidences, old.drawn_to)) then
    new.review_count := private.store_fields(old, new);
    new.unseen_count := (select count(*) from public.fields
      where extraction_id = new.id and new.audit_rate is not null and status = 'found' and kind <> 'container'
        and state = 'found' and outcome is null);
  end if;
  return new;
end $$;

create trigger check_extraction before insert or update on public.extractions
  for each row execute function private.check_extraction();
