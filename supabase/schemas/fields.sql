-- The fields of extractions as rows, with their statuses. Everything that lists, counts, filters or exports fields reads
-- them. A trigger writes them with each change of an extraction. `extracted_fields` remains the truth.

create table public.fields (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  document_id uuid not null,
  extraction_id uuid not null,
  -- `items[2].price`; `pattern` is the path without indexes, `items[].price`, and `indexes` has them: {2}.
  path text not null,
  pattern text not null,
  -- An index on `pattern` itself would reject long paths.
  pattern_key uuid not null generated always as (md5(pattern)::uuid) stored,
  indexes integer[] not null,
  -- Finds the values of one row of a long list. (Without statistics, an index that begins with extraction_id loses to the
  -- one on pattern_key, which reads all values of the extraction for each row.)
  row_key bigint not null generated always as (uuid_hash_extended(extraction_id, hash_array_extended(indexes, 0))) stored,
  -- A container is an object or a list; its `text` is the start of its JSON. A blank is a null or empty value, or a field
  -- that should have a value and does not exist.
  kind text not null check (kind in ('number', 'day', 'text', 'boolean', 'container', 'blank')),
  text text check ((text is null) = (kind = 'blank')),
  number numeric check ((number is not null) = (kind = 'number')),
  day date check ((day is not null) = (kind = 'day')),
  -- Of a number: the code or text beside it, or in the nearest object around it. Null for quantities.
  currency text,
  -- The state of its evidence: found, not_found, …
  state text,
  confidence numeric,
  -- By private.field_status.
  is_verified boolean not null,
  status text not null check (status in ('needs_review', 'unclear', 'not_written', 'blank', 'accepted', 'confirmed', 'found')),
  reason text,
  -- A field that should have a value, and is not in the fields of the extraction.
  is_absent boolean not null default false check (not is_absent or kind = 'blank'),
  -- What a person's check of the value came to, by private.field_check. Null: no person checked it.
  outcome text check (outcome in ('confirmed', 'reviewed', 'corrected', 'found', 'absent')),
  checked_by uuid,
  checked_at timestamptz,
  -- The version of the stored schema that the extraction then followed.
  checked_revid uuid,
  -- The confidence that the agent's value had then.
  checked_confidence numeric,
  foreign key (extraction_id, document_id, org_id) references public.extractions (id, document_id, org_id)
    on delete cascade
);
create index fields_extraction_id on public.fields (extraction_id, pattern_key);
create index fields_row_key on public.fields (row_key);
create index fields_to_review on public.fields (extraction_id) where status in ('needs_review', 'unclear');
create index fields_checked on public.fields (org_id, checked_at)
  include (outcome, checked_revid, pattern_key, checked_by, extraction_id, id, checked_confidence) where outcome is not null;
select private.protect_table('public.fields', p_members_read => true);

-- Whether the name of a field says that its number is a count, measure, rate or identifier, and not an amount.
create function private.is_quantity(p_key text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return regexp_replace(p_key, '([[:lower:][:digit:]])([[:upper:]])', '\1_\2', 'g') ~* ('(^|[^[:alpha:]])('
  '(qty|quantity|quantities|menge|anzahl)([^[:alpha:]]+(ordered|delivered|shipped|invoiced|billed|returned|total))?'
  '|count|pieces|pcs|units|hours|days|nights|weeks|months|years|pages|lines|persons|people|guests|weight|length|width|height'
  '|area|distance|mileage|km|kg|kwh|percent|percentage|pct|(vat|tax|discount|interest|exchange)[^[:alpha:]]*rate'
  '|number|num|no|nr|id|position|pos|index|year|age|stück|stueck|stunden|tage|gewicht|prozent|prozentsatz'
  '|steuersatz|nummer|jahr|quantité|poids|heures|cantidad|horas|porcentaje|quantità|percentuale|aantal|uren)[^[:alpha:]]*$');

-- The pattern and the indexes of a path name: `items[2].price` has the pattern `items[].price` and the indexes {2}.
create function private.pattern_of(p_name text) returns table (pattern text, indexes integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when p_name !~ '\[[0-9]' then p_name
      else string_agg(coalesce(part[1], '[]'), '' order by n) end,
    case when p_name !~ '\[[0-9]' then '{}' else
      coalesce(array_agg(part[2]::integer order by n) filter (where part[2] is not null), '{}') end
  from regexp_matches(p_name, '(\["(?:[^"\\]|\\.)*"\]|[^[]+)|\[([0-9]{1,9})\]', 'g') with ordinality as found (part, n)
$$;

-- Whether a path is another one or below it.
create function private.is_within(p_path text, p_of text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return p_path = p_of or starts_with(p_path, p_of || '.') or starts_with(p_path, p_of || '[');

-- What a person's check of a value came to: `confirmed` one by one, `reviewed` with its list, object or extraction,
-- `corrected`, `found` (the agent had none), or `absent` (so had the person). `p_lock` is that of the value, if it has one.
create function private.field_check(p_kind text, p_text text, p_lock jsonb, p_reviewed_by uuid, p_reviewed_at timestamptz)
returns table (outcome text, checked_by uuid, checked_at timestamptz)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select said.outcome, case when p_lock is null then p_reviewed_by else (p_lock ->> 'by')::uuid end,
    case when p_lock is null then p_reviewed_at else (p_lock ->> 'at')::timestamptz end
  from (select case
      when p_kind = 'container' then null
      when p_lock is null then case when p_kind <> 'blank' and p_reviewed_at is not null then 'reviewed' end
      when not p_lock ? 'was' then case p_kind when 'blank' then 'absent' else 'found' end
      when p_lock ->> 'was' is distinct from p_text then 'corrected' when p_lock ? 'whole' then 'reviewed' else 'confirmed' end as outcome) as said
  where said.outcome is not null
$$;

-- Writes the rows of an extraction after a change. Returns the number of fields that a person has to look at.
create function private.store_fields(p_old public.extractions, p_new public.extractions) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  -- (Decompressed once, instead of once for each value.)
  v_fields jsonb := jsonb_path_query_first(p_new.extracted_fields, '$');
  v_evidence jsonb := jsonb_path_query_first(p_new.evidence, '$');
  v_problems jsonb := jsonb_path_query_first(p_new.problems, '$');
  v_old jsonb := jsonb_path_query_first(p_old.extracted_fields, '$');
  v_proposed text[] := array(
    select name from public.extraction_proposals where extraction_id = p_new.id and status = 'pending');
  v_has_currency boolean := v_fields::text ~* 'currency(_?code)?\\?"';
  v_audited text[] := array(select path from public.audits where extraction_id = p_new.id and path is not null);
  v_changed text[];
  v_marked text[];
begin
  v_changed := array(select name from private.changes(v_old, v_fields) where p_new.version <> p_old.version);
  if exists (select from unnest(v_changed) as name where name ~* 'currency(_?code)?("\])?$') then
    -- The currency of every number may be another one.
    v_old := '{}';
    delete from public.fields where extraction_id = p_new.id;
  else
    v_marked := array(
      select key from jsonb_each(p_old.evidence) as o full join jsonb_each(v_evidence) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.confidences) as o full join jsonb_each(p_new.confidences) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.locks) as o full join jsonb_each(p_new.locks) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.problems) as o full join jsonb_each(v_problems) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.accepted) as o full join jsonb_each(p_new.accepted) as n using (key)
      where o.value is distinct from n.value
      union
      select unnest(v_audited)
      union
      select path from public.fields where extraction_id = p_new.id and p_old.min_confidences <> p_new.min_confidences
      union
      select path from public.fields as f where extraction_id = p_new.id and kind <> 'container'
        and (reason is not distinct from 'proposal') <> exists (select from unnest(v_proposed) as p (name) where private.is_within(f.path, p.name)));
    -- Also fields without a value that need none any more.
    delete from public.fields as f where f.extraction_id = p_new.id and (
      f.path = any (v_changed)
      or f.is_absent and f.path = any (v_marked) and not (v_problems ? f.path));
    update public.fields as f set state = v_evidence -> f.path ->> 'state',
      confidence = (p_new.confidences ->> f.path)::numeric,
      is_verified = s.is_verified, status = s.status, reason = s.reason
    from public.fields as g cross join lateral private.field_status(
      g.kind, v_evidence -> g.path ->> 'state', (p_new.confidences ->> g.path)::numeric,
      coalesce(v_evidence -> g.path ->> 'reason', v_evidence -> g.path -> 'doubts' ->> 0), p_new.locks ? g.path, exists (select from unnest(v_proposed) as p (name) where private.is_within(g.path, p.name)),
      v_problems ->> g.path, coalesce(p_new.min_confidences -> g.pattern, p_new.min_confidences -> '*')::numeric,
      g.path = any (v_audited), p_new.accepted ->> g.path) as s
    where f.id = g.id and g.extraction_id = p_new.id and g.path = any (v_marked);
  end if;
  insert into public.fields (
    org_id, document_id, extraction_id, path, pattern, indexes, kind, text, number, day, currency, state, confidence,
    is_verified, status, reason)
  select p_new.org_id, p_new.document_id, p_new.id, c.name, l.pattern, l.indexes, k.kind,
    case k.kind when 'container' then left(c.new::text, 500) when 'blank' then null else c.new #>> '{}' end,
    case k.kind when 'number' then c.new::numeric end,
    case k.kind when 'day' then left(c.new #>> '{}', 10)::date end,
    case beside.currency
      when '€' then 'EUR' when 'EURO' then 'EUR' when 'EUROS' then 'EUR' when 'US$' then 'USD' when 'A$' then 'AUD'
      when 'C$' then 'CAD' when 'NZ$' then 'NZD' when 'S$' then 'SGD' when 'HK$' then 'HKD' when 'R$' then 'BRL'
      when 'RMB' then 'CNY' when '₹' then 'INR' when 'SFR' then 'CHF' else beside.currency end,
    v_evidence -> c.name ->> 'state',
    (p_new.confidences ->> c.name)::numeric,
    s.is_verified, s.status, s.reason
  from private.changes(v_old, v_fields) as c
  cross join lateral (select case when c.new in ('null', '""', '{}', '[]') then 'blank' else case jsonb_typeof(c.new)
    when 'object' then 'container' when 'array' then 'container' when 'string' then
      case when c.new #>> '{}' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)' and pg_input_is_valid(left(c.new #>> '{}', 10), 'date')
        then 'day' else 'text' end
    else jsonb_typeof(c.new) end end as kind,
    v_has_currency and jsonb_typeof(c.new) = 'number' and private.is_quantity(c.path[cardinality(c.path)]) as is_quantity offset 0) as k
  cross join lateral (
    select c.name as pattern, '{}'::integer[] as indexes where c.steps !~ 'i'
    union all
    select regexp_replace(string_agg(
        case substr(c.steps, n::integer, 1) when 'i' then '[]' else substr(private.child_name('x', key), 2) end, ''
        order by n), '^\.', ''),
      array_agg(key order by n) filter (where substr(c.steps, n::integer, 1) = 'i')::integer[]
    from unnest(c.path) with ordinality as step (key, n) where c.steps ~ 'i' having count(*) > 0
  ) as l
  left join lateral (
    -- In its object `total_currency` (for `total`), else, unless it is a quantity, the nearest of three keys around it.
    select upper(left(btrim(v_fields #>> (c.path[:depth] || q.key)), 20)) as currency
    from generate_series(cardinality(c.path) - 1, 0, -1) as depth
    cross join unnest(array[c.path[cardinality(c.path)] || '_currency', 'currency', 'currency_code', 'currencyCode'])
      with ordinality as q (key, n)
    where case when n > 1 then not k.is_quantity else depth = cardinality(c.path) - 1 end
      and jsonb_typeof(v_fields #> (c.path[:depth] || q.key)) = 'string'
      and btrim(v_fields #>> (c.path[:depth] || q.key)) <> ''
    order by depth desc, n limit 1
  ) as beside on v_has_currency and k.kind = 'number'
  cross join lateral private.field_status(
    k.kind, v_evidence -> c.name ->> 'state', (p_new.confidences ->> c.name)::numeric,
    coalesce(v_evidence -> c.name ->> 'reason', v_evidence -> c.name -> 'doubts' ->> 0), p_new.locks ? c.name, exists (select from unnest(v_proposed) as p (name) where private.is_within(c.name, p.name)),
    v_problems ->> c.name, coalesce(p_new.min_confidences -> l.pattern, p_new.min_confidences -> '*')::numeric,
    c.name = any (v_audited), p_new.accepted ->> c.name) as s
  where c.new is not null and p_new.version is distinct from p_old.version;
  if v_problems <> '{}' then
    insert into public.fields (
      org_id, document_id, extraction_id, path, pattern, indexes, kind, is_absent, text, is_verified, status, reason)
    select p_new.org_id, p_new.document_id, p_new.id, one.key, l.pattern, l.indexes, 'blank', true, null, s.is_verified, s.status, s.reason
    from jsonb_each_text(v_problems) as one
    cross join lateral private.pattern_of(one.key) as l
    cross join lateral private.field_status(
      'blank', null, null, null, false,
      exists (select from unnest(v_proposed) as p (name) where private.is_within(one.key, p.name)),
      one.value, null, false, p_new.accepted ->> one.key) as s
    where not exists (select from public.fields where extraction_id = p_new.id and path = one.key);
  end if;
  if p_new.locks <> '{}' or p_old.locks <> '{}' or p_new.reviewed_at is distinct from p_old.reviewed_at then
    update public.fields as f set outcome = c.outcome, checked_by = c.checked_by, checked_at = c.checked_at,
      checked_revid = case when c.outcome is not null then p_new.schema_revid end,
      checked_confidence = case when c.outcome is not null then (p_old.confidences ->> g.path)::numeric end
    from public.fields as g left join lateral private.field_check(
      g.kind, g.text, p_new.locks -> g.path, p_new.reviewed_by, p_new.reviewed_at) as c on true
    where f.id = g.id and g.extraction_id = p_new.id
      and (g.outcome, g.checked_by, g.checked_at) is distinct from (c.outcome, c.checked_by, c.checked_at);
  end if;
  perform private.settle_audits(p_new.id, case when private.is_agent() then v_changed else '{}' end)
  where cardinality(v_audited) > 0 or exists (select from public.audits where extraction_id = p_new.id);
  return (select count(*) from public.fields
    where extraction_id = p_new.id and status in ('needs_review', 'unclear'));
end $$;

-- How many fields of an extraction a person has to look at, by row of the table whose rows are the items of `p_list`, such
-- as `items[]`. A row counts those with its indexes, and those without indexes: they are outside of the list, and shared by
-- all rows of the document.
create function private.review_counts(p_extraction_id uuid, p_list text) returns table (indexes integer[], fields bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when starts_with(f.pattern, p_list) then
      f.indexes[:(char_length(p_list) - char_length(replace(p_list, '[]', ''))) / 2] else '{}' end, count(*)
  from public.fields as f where f.extraction_id = p_extraction_id and f.status in ('needs_review', 'unclear')
  group by 1
$$;

-- (The rows of an update are written by check_extraction, before the update: only then can it store their number.)
create function private.store_fields_of_insert() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_before public.extractions;
begin
  v_before.extracted_fields := '{}';
  v_before.evidence := '{}';
  v_before.confidences := '{}';
  v_before.locks := '{}';
  v_before.problems := '{}';
  v_before.accepted := '{}';
  v_before.min_confidences := '{}';
  update public.extractions set review_count = private.store_fields(v_before, new) where id = new.id;
  return null;
end $$;

create trigger store_fields after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.store_fields_of_insert();
