-- The values of extractions as rows, for filters, totals, sorting and records. A trigger writes them with each change.

create table public.field_values (
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
  row_key bigint not null generated always as (hash_array_extended(indexes, uuid_hash_extended(extraction_id, 0))) stored,
  -- Blank values have no row. A container is an object or a list; its `text` is the start of its JSON.
  kind text not null check (kind in ('number', 'day', 'text', 'boolean', 'container')),
  text text not null,
  number numeric check ((number is not null) = (kind = 'number')),
  day date check ((day is not null) = (kind = 'day')),
  -- Of a number: the code or text beside it, or in the nearest object around it. Null for quantities.
  currency text,
  -- The state of its evidence: found, not_found, …
  state text,
  confidence numeric,
  -- Found on a page, or set by a user. Containers count as verified.
  is_verified boolean not null,
  foreign key (extraction_id, document_id, org_id) references public.extractions (id, document_id, org_id)
    on delete cascade
);
create index field_values_extraction_id on public.field_values (extraction_id, pattern_key);
create index field_values_row_key on public.field_values (row_key);
select private.protect_table('public.field_values', p_members_read => true);

-- Whether the name of a field says that its number is a count, measure, rate or identifier, and not an amount.
create function private.is_quantity(p_key text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return regexp_replace(p_key, '([[:lower:][:digit:]])([[:upper:]])', '\1_\2', 'g') ~* ('(^|[^[:alpha:]])('
  '(qty|quantity|quantities|menge|anzahl)([^[:alpha:]]+(ordered|delivered|shipped|invoiced|billed|returned|total))?'
  '|count|pieces|pcs|units|hours|days|nights|weeks|months|years|pages|lines|persons|people|guests|weight|length|width|height'
  '|area|distance|mileage|km|kg|kwh|percent|percentage|pct|(vat|tax|discount|interest|exchange)[^[:alpha:]]*rate'
  '|number|num|no|nr|id|position|pos|index|year|age|stück|stueck|stunden|tage|gewicht|prozent|prozentsatz'
  '|steuersatz|nummer|jahr|quantité|poids|heures|cantidad|horas|porcentaje|quantità|percentuale|aantal|uren)[^[:alpha:]]*$');

create function private.write_field_values() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  -- (Decompressed once, instead of once for each value.)
  v_fields jsonb := jsonb_path_query_first(new.extracted_fields, '$');
  v_evidence jsonb := jsonb_path_query_first(new.evidence, '$');
  v_old jsonb := '{}';
  v_changed text[] := '{}';
  v_marked text[] := '{}';
  v_has_currency boolean := v_fields::text ~* 'currency(_?code)?\\?"';
begin
  if tg_op = 'UPDATE' then
    v_old := old.extracted_fields;
    v_changed := array(select name from private.changes(v_old, v_fields) where new.version <> old.version);
    if exists (select from unnest(v_changed) as name where name ~* 'currency(_?code)?("\])?$') then
      -- The currency of every number may be another one.
      v_old := '{}';
      delete from public.field_values where extraction_id = new.id;
    else
      delete from public.field_values where extraction_id = new.id and path = any (v_changed);
      v_marked := array(
        select key from jsonb_each(old.evidence) as o full join jsonb_each(v_evidence) as n using (key)
        where o.value is distinct from n.value
        union
        select key from jsonb_each(old.confidences) as o full join jsonb_each(new.confidences) as n using (key)
        where o.value is distinct from n.value
        union
        select key from jsonb_each(old.locks) as o full join jsonb_each(new.locks) as n using (key)
        where o.value is distinct from n.value);
      update public.field_values as v set state = v_evidence -> v.path ->> 'state',
        confidence = (new.confidences ->> v.path)::numeric,
        is_verified = v.kind = 'container' or coalesce(v_evidence -> v.path ->> 'state' = 'found', false)
          or new.locks ? v.path
      where v.extraction_id = new.id and v.path = any (v_marked);
    end if;
  end if;
  insert into public.field_values (
    org_id, document_id, extraction_id, path, pattern, indexes, kind, text, number, day, currency, state, confidence,
    is_verified)
  select new.org_id, new.document_id, new.id, c.name, l.pattern, l.indexes, k.kind,
    case k.kind when 'container' then left(c.new::text, 500) else c.new #>> '{}' end,
    case k.kind when 'number' then c.new::numeric end,
    case k.kind when 'day' then left(c.new #>> '{}', 10)::date end,
    case beside.currency
      when '€' then 'EUR' when 'EURO' then 'EUR' when 'EUROS' then 'EUR' when 'US$' then 'USD' when 'A$' then 'AUD'
      when 'C$' then 'CAD' when 'NZ$' then 'NZD' when 'S$' then 'SGD' when 'HK$' then 'HKD' when 'R$' then 'BRL'
      when 'RMB' then 'CNY' when '₹' then 'INR' when 'SFR' then 'CHF' else beside.currency end,
    v_evidence -> c.name ->> 'state',
    (new.confidences ->> c.name)::numeric,
    k.kind = 'container' or coalesce(v_evidence -> c.name ->> 'state' = 'found', false) or new.locks ? c.name
  from private.changes(v_old, v_fields) as c
  cross join lateral (select case jsonb_typeof(c.new)
    when 'object' then 'container' when 'array' then 'container' when 'string' then
      case when c.new #>> '{}' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)' and pg_input_is_valid(left(c.new #>> '{}', 10), 'date')
        then 'day' else 'text' end
    else jsonb_typeof(c.new) end as kind,
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
  where c.new not in ('null', '""', '{}', '[]') and (tg_op = 'INSERT' or new.version <> old.version);
  return null;
end $$;

create trigger write_field_values_of_insert after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.write_field_values();
create trigger write_field_values_of_update after update on public.extractions for each row when (
    new.version <> old.version or new.evidence <> old.evidence or new.confidences <> old.confidences
    or new.locks <> old.locks)
  execute function private.write_field_values();
