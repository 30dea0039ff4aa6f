-- Audits: values drawn at random when an agent completes an extraction, among all that it found on a page. A person looks at
-- each, and so bounds how many of the others are wrong.

create table public.audits (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  extraction_id uuid not null,
  -- Of the value now. Null: a person removed it.
  path text,
  schema_revid uuid not null,
  model text not null,
  confidence numeric not null,
  -- The random number, below the rate with which the values of the extraction were drawn. Audits with a number below a
  -- lower rate are as if drawn with that rate: so audits of different rates can be compared.
  draw float8 not null,
  -- Whether nothing else asks a person to look at the value: it would be accepted without a look.
  is_accepted boolean not null,
  -- What a look at this value came to, one by one: not with a review of the whole extraction.
  outcome text check (outcome in ('right', 'wrong')),
  checked_by uuid,
  checked_at timestamptz,
  created_at timestamptz not null default now(),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index audits_extraction_id on public.audits (extraction_id);
create index audits_schema_revid on public.audits (schema_revid, model)
  include (draw, confidence, is_accepted, outcome);
select private.protect_table('public.audits', p_members_read => true);

-- A random number from 0 to 1 that no one can predict from those before.
create function private.draw() returns float8
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select (uuid_hash_extended(gen_random_uuid(), 0)::numeric / 18446744073709551616 + 0.5)::float8 $$;

-- The share of values that are drawn, after so many were accepted: a tenth until there are enough for the goal with one
-- wrong among them (475 for 1 %), then fewer with each value, so that there always are as many. 0 without a goal.
create function private.audit_rate(p_max_error numeric, p_values bigint) returns float8
language sql immutable set search_path = pg_catalog, pg_temp
return case when p_max_error >= 1 then 0 else least(0.1, 4.75 / p_max_error / greatest(p_values, 1)) end;

-- The confidence from which a value is accepted until audits show another one: of the values from 0.95 without a doubt 0.3 to
-- 0.9 % are wrong, of those from 0.5 up to 3 % (docs/performance.md).
create function private.starting_confidence(p_max_error numeric) returns numeric
language sql immutable set search_path = pg_catalog, pg_temp
return case when p_max_error < 0.03 then 0.95 else 0.5 end;

-- Versions of a schema that read as one version does: it, and those that do not differ from the latest if it is the latest.
create function private.same_versions(p_schema_revid uuid) returns setof uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p_schema_revid
  union
  select o.id from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
  join public.schema_versions as o on o.schema_id = s.id and s.differences -> o.id::text = '{}'
  where v.id = p_schema_revid and not s.differences ? v.id::text
$$;

-- Whether a layout is new, of whose drawn values so many were looked at: none, or fewer than half of them and than 20.
create function private.is_new_layout(p_looked_at bigint, p_drawn bigint) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp return p_looked_at < greatest(1, least(20, p_drawn / 2.0));

-- The values drawn in what a model read, with the layouts of their documents: those that wait for a look or had one. None
-- waits that was reviewed with its list or document.
create function private.drawn_values(p_schema_revids uuid[], p_model text)
returns table (layout uuid, confidence numeric, draw float8, is_accepted boolean, outcome text, checked_at timestamptz)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query select coalesce(e.layout, e.id), a.confidence, a.draw, a.is_accepted, a.outcome, a.checked_at
  from public.audits as a join public.extractions as e on e.id = a.extraction_id
  where a.schema_revid = any (p_schema_revids) and a.model = p_model
    and (a.outcome is not null or exists (
      select from public.fields as f where f.extraction_id = a.extraction_id and f.path = a.path and f.outcome is null));
end $$;

-- The layouts of what a model read, the values in them that were accepted without a look, and whether the claim covers them.
-- A document that looks like no other has no layout of its own: all of those are judged together (`alike` is null).
create function private.layout_coverage(p_schema_revids uuid[], p_model text)
returns table (layout uuid, alike uuid, "values" bigint, is_covered boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query with layouts as (
    select coalesce(e.layout, e.id) as layout, case when count(*) > 1 then e.layout end as alike, sum(e.unseen_count) as "values"
    from public.extractions as e where e.schema_revid = any (p_schema_revids) and e.model = p_model and e.audit_rate > 0
    group by e.layout, coalesce(e.layout, e.id)
  ), drawn as (
    select d.layout, count(d.outcome) as looked_at, count(*) as drawn
    from private.drawn_values(p_schema_revids, p_model) as d where d.is_accepted group by d.layout
  )
  select l.layout, l.alike, l."values", not private.is_new_layout(
    coalesce(sum(d.looked_at) over alike, 0)::bigint, coalesce(sum(d.drawn) over alike, 0)::bigint)
  from layouts as l left join drawn as d on d.layout = l.layout
  window alike as (partition by l.alike);
end $$;

-- What people's looks at the values of a schema's newest version show, of those that the newest model read. For members, and
-- for the service without a user.
--   values   accepted without a look: no one has looked at them
--   uncovered_values, uncovered_layouts   of those in layouts that the claim does not cover (private.layout_coverage);
--            `uncovered` has their documents' layouts
--   rate     the lowest rate with which values were drawn: looks at those drawn with a higher number are left out
--   audits   [confidence, whether it would be accepted without the audit, whether its layout is covered, right, wrong,
--            waiting] by the first three. None waits of values that were reviewed with their list or document
--   weeks    [monday, right, wrong] of the audits that the claim counts, by the week of the look
--   looks    [pattern, confidence of at least 0.95 (2), 0.5 (1) or less (0), checked, corrected] of the newest 10,000 looks
create function private.review_figures(p_schema_id uuid) returns table (
  max_error numeric, own_max_error numeric, starting_confidence numeric, schema_revid uuid, schema_revids uuid[], model text,
  "values" bigint, uncovered_values bigint, uncovered_layouts bigint, uncovered uuid[], rate float8, audits jsonb,
  weeks jsonb, looks jsonb, min_confidences jsonb
) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_org uuid := (select org_id from public.schemas where id = p_schema_id);
begin
  perform private.check_found(
    private.is_service() and auth.uid() is null or v_org in (select private.my_org_ids()), 'schema');
  select coalesce(s.max_error, o.max_error), s.max_error, v.id, private.starting_confidence(coalesce(s.max_error, o.max_error))
  into max_error, own_max_error, schema_revid, starting_confidence
  from public.schemas as s join public.organisations as o on o.id = s.org_id
  join public.schema_versions as v on v.schema_id = s.id where s.id = p_schema_id order by v.number desc limit 1;
  schema_revids := array(select private.same_versions(schema_revid));
  select e.model, sum(e.unseen_count), min(e.audit_rate) into model, "values", rate
  from public.extractions as e where e.schema_revid = any (schema_revids) and e.audit_rate > 0
  group by e.model order by max(e.created_at) desc limit 1;
  "values" := coalesce("values", 0);
  select coalesce(sum(c."values"), 0), count(distinct coalesce(c.alike::text, '')) filter (where c."values" > 0),
    coalesce(array_agg(c.layout), '{}')
  into uncovered_values, uncovered_layouts, uncovered
  from private.layout_coverage(schema_revids, model) as c where not c.is_covered;
  audits := (
    select coalesce(jsonb_agg(jsonb_build_array(
      a.confidence, a.is_accepted, a.is_covered, a.is_right, a.is_wrong, a.waiting)), '[]') from (
      select d.confidence, d.is_accepted, d.layout <> all (uncovered) as is_covered,
        count(*) filter (where d.outcome = 'right') as is_right, count(*) filter (where d.outcome = 'wrong') as is_wrong,
        count(*) filter (where d.outcome is null) as waiting
      from private.drawn_values(schema_revids, model) as d where d.draw < rate or d.outcome is null group by 1, 2, 3) as a);
  weeks := (
    select coalesce(jsonb_agg(jsonb_build_array(a.monday, a.is_right, a.is_wrong) order by a.monday), '[]') from (
      select date_trunc('week', d.checked_at at time zone 'utc')::date as monday,
        count(*) filter (where d.outcome = 'right') as is_right, count(*) filter (where d.outcome = 'wrong') as is_wrong
      from private.drawn_values(schema_revids, model) as d
      where d.draw < rate and d.is_accepted and d.layout <> all (uncovered) and d.outcome is not null
      group by 1) as a);
  looks := (
    select coalesce(jsonb_agg(jsonb_build_array(f.pattern, l.band, l.checked, l.corrected)), '[]') from (
      select max(id) as example, (checked_confidence >= 0.5)::integer + (checked_confidence >= 0.95)::integer as band,
        count(*) as checked, count(*) filter (where outcome = 'corrected') as corrected
      from (
        select * from public.fields where org_id = v_org and outcome is not null
        order by checked_at desc limit 10000) as newest
      where checked_revid = any (schema_revids) and outcome in ('confirmed', 'corrected') and checked_confidence is not null
      group by pattern_key, band) as l
    join public.fields as f on f.id = l.example);
  min_confidences := (select p.min_confidences from private.review_policy(schema_revid, model) as p);
  return next;
end $$;

-- Stores what the looks of people showed, for the extractions that follow: see private.review_policy.
create function private.store_review_policy(p_schema_id uuid, p_policy jsonb) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.schemas set review_policy = p_policy where id = p_schema_id and private.is_service()
    and review_policy is distinct from p_policy
$$;

-- Sets how many of a table's values that no one looks at may be wrong. Null: as many as the organisation says.
create function public.set_max_error(p_schema_id uuid, p_max_error numeric) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.schemas set max_error = p_max_error, recount = true
  where id = p_schema_id and deleted_at is null and org_id in (select private.my_writable_org_ids());
  perform private.check_found(found, 'schema');
end $$;

-- What is accepted without a look in an extraction by this model: from which confidence, by pattern (`*`: all others), and
-- the rate of audits. What was learnt counts for the same model, goal and schema.
create function private.review_policy(p_schema_revid uuid, p_model text)
returns table (min_confidences jsonb, audit_rate float8)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when known.is_same and s.review_policy ->> 'max_error' = goal.max_error::text
      then s.review_policy -> 'min_confidences'
      else jsonb_build_object('*', private.starting_confidence(goal.max_error)) end,
    private.audit_rate(goal.max_error, case when known.is_same then (s.review_policy ->> 'values')::bigint else 0 end)
  from public.schema_versions as v
  join public.schemas as s on s.id = v.schema_id
  join public.organisations as o on o.id = s.org_id
  cross join lateral (select coalesce(s.max_error, o.max_error) as max_error) as goal
  cross join lateral (select s.review_policy ->> 'model' = p_model
    and (s.review_policy ->> 'schema_revid')::uuid in (select private.same_versions(v.id)) as is_same) as known
  where v.id = p_schema_revid
$$;

-- The hashes of what is printed on a document's first page beside the values of its extraction: labels, and what the sender
-- prints on each document. Pages of the same layout share most of them.
create function private.layout_words(p_extraction_id uuid, p_document_id uuid) returns integer[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (select coalesce(array_agg(distinct hashtext(word[1])), '{}') from (
    select regexp_matches(lower(left(text, 20000)), '[[:alpha:]]{3,}', 'g') as word
    from public.document_pages where document_id = p_document_id and number = 1
    except
    select regexp_matches(lower(text), '[[:alpha:]]{3,}', 'g')
    from public.fields where extraction_id = p_extraction_id and kind = 'text') as printed);
end $$;

-- The layout of a page with these words: that of the most similar of the table's newest 200 extractions with at least half
-- of the words of both, or a new one.
create function private.layout_of(p_schema_revid uuid, p_words integer[]) returns uuid
language sql volatile set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select e.layout from (
      select layout, layout_words from private.same_versions(p_schema_revid) as version (id)
      cross join lateral (
        select layout, layout_words, created_at from public.extractions
        where schema_revid = version.id and layout is not null order by created_at desc, id desc limit 200) as newest
      order by created_at desc limit 200) as e
    cross join lateral (
      select count(*) filter (where word = any (p_words)) as shared, count(*) as own from unnest(e.layout_words) as word) as n
    where shared * 2 >= own + cardinality(p_words) - shared and shared > 0
    order by shared::float8 / (own + cardinality(p_words) - shared) desc limit 1), private.new_id())
$$;

-- Draws audits among the values that an agent found, each value once: those with an id above `p_after`. Returns the last id.
-- If none of a layout that several documents have was drawn yet, the value with the lowest number is: so whether the claim
-- covers a layout depends on people's looks, and not on what was drawn.
create function private.draw_audits(p_extraction public.extractions, p_after bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  with one as materialized (
    select f.id, f.path, f.confidence, private.draw() as draw from public.fields as f
    where f.extraction_id = p_extraction.id and f.id > p_after and f.state = 'found' and f.confidence is not null
      and f.kind not in ('container', 'blank') and f.outcome is null
  ), first as (
    select id from one
    where p_extraction.audit_rate > 0
      and exists (select from public.extractions as e where e.layout = p_extraction.layout and e.id <> p_extraction.id
        and e.model = p_extraction.model and e.audit_rate > 0)
      and not exists (select from public.audits as a join public.extractions as e on e.id = a.extraction_id
        where e.layout = p_extraction.layout and a.model = p_extraction.model and a.is_accepted)
    order by confidence >= (p_extraction.min_confidences ->> '*')::numeric desc nulls last, draw limit 1)
  insert into public.audits (org_id, extraction_id, path, schema_revid, model, confidence, draw, is_accepted)
  select p_extraction.org_id, p_extraction.id, path, p_extraction.schema_revid, p_extraction.model, confidence, draw, false
  from one where draw < p_extraction.audit_rate or id in (select id from first);
  return (select coalesce(max(id), p_after) from public.fields where extraction_id = p_extraction.id);
end $$;

-- What is stored about a list item and about its list, before the item is removed.
create function private.removed_item(p_was public.extractions, p_path text[], p_version integer) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('version', p_version, 'path', p_path,
      'audits', (select private.entries_under(coalesce(jsonb_object_agg(path, id), '{}'), item)
        from public.audits where extraction_id = p_was.id and path is not null))
    || (select jsonb_object_agg(kind, private.entries_under(entries, item) || private.entries_under(entries, list, true))
      from (values ('locks', p_was.locks), ('confidences', p_was.confidences), ('evidence', p_was.evidence),
        ('problems', p_was.problems), ('accepted', p_was.accepted), ('second_reading', p_was.second_reading)) as a (kind, entries))
  from private.path_name(p_was.extracted_fields, p_path) as item,
    private.path_name(p_was.extracted_fields, p_path[:cardinality(p_path) - 1]) as list
$$;

-- Follows the audits of a list after one of its items was removed, or came back with its audits. What was in it was wrong if
-- a person removed it.
create function private.shift_audits(p_extraction_id uuid, p_was jsonb, p_item text[], p_back jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.audits as a set path = found.path
  from (
    select one.id, moved.key as path from public.audits as one
    left join jsonb_each(private.shift_entries('{}', (
        select coalesce(jsonb_object_agg(path, id), '{}') from public.audits where extraction_id = p_extraction_id and path is not null),
      p_was, p_item, p_back is not null) || coalesce(p_back, '{}')) as moved on moved.value = to_jsonb(one.id)
    where one.extraction_id = p_extraction_id and (p_back ?| array[moved.key]
      or starts_with(one.path, private.path_name(p_was, p_item[:cardinality(p_item) - 1]) || '['))) as found
  where a.id = found.id and a.path is distinct from found.path;
end $$;

-- Stores what the looks at the drawn values of an extraction came to. An agent's own change of a value ends its audit.
create function private.settle_audits(p_extraction_id uuid, p_changed text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.audits as a set outcome = now.outcome, checked_by = now.checked_by, checked_at = now.checked_at,
    is_accepted = now.is_accepted
  from (
    select one.id, case when f.outcome is null then coalesce(f.reason = 'audit', false) else one.is_accepted end as is_accepted,
      said.outcome, case when said.outcome is not null then coalesce(f.checked_by, auth.uid()) end as checked_by,
      case when said.outcome is not null then coalesce(f.checked_at, now()) end as checked_at
    from public.audits as one left join public.fields as f on f.extraction_id = one.extraction_id and f.path = one.path
    cross join lateral (select case
      when f.outcome = 'confirmed' then 'right'
      when f.outcome = 'corrected' or f.id is null and not private.is_agent() then 'wrong' end as outcome) as said
    where one.extraction_id = p_extraction_id and not (one.outcome is not null and f.id is null)) as now
  where a.id = now.id
    and (a.outcome, a.checked_by, a.checked_at, a.is_accepted)
      is distinct from (now.outcome, now.checked_by, now.checked_at, now.is_accepted);
  delete from public.audits as a where extraction_id = p_extraction_id and outcome is null
    and (path is null or path = any (p_changed)
      or not exists (select from public.fields as f where f.extraction_id = a.extraction_id and f.path = a.path));
end $$;
