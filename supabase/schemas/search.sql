-- Search: an index of words by document chunk, ranked per organisation (BM25).
--
-- The index contains no text. A term is a number made with a secret of its organisation, so the index reveals nothing to
-- its readers. Ranks use the statistics of one organisation. A term number has four bytes: with eight the index is twice as
-- large. So of 300,000 terms of an organisation about ten pairs collide.

create table private.search_orgs (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  number integer generated always as identity unique,
  seed bigint not null default ('x' || encode(substring(uuid_send(gen_random_uuid()) from 9), 'hex'))::bit(64)::bigint,
  chunks bigint not null default 0,
  -- The number of page chunks, and of terms in them, for the average length.
  page_chunks bigint not null default 0,
  terms bigint not null default 0,
  -- The languages of the chunks: a query is stemmed in each of them. (Names of Postgres' stemmers.)
  languages text[] not null default '{}'
);
select private.protect_table('private.search_orgs');

-- A chunk of a page, or (number 0) of the document: its name and its current extraction.
-- No foreign key to documents: the indexing job of a deleted document also updates the statistics.
create table private.search_chunks (
  document_id uuid not null,
  number integer not null check (number >= 0),
  org_number integer not null,
  page integer not null,
  first_word integer not null,
  last_word integer not null,
  language text not null,
  -- `keys` starts with the repeated terms; `counts` has their counts, one byte each.
  length integer not null,
  keys integer[] not null,
  counts bytea not null,
  primary key (document_id, number)
);
-- For the deletion of an organisation.
create index search_chunks_org_number on private.search_chunks (org_number);
-- Without a pending list: every query would read it.
create index search_chunks_keys on private.search_chunks using gin (keys) with (fastupdate = off);
-- Keys are read with the row, so they are stored inline; column statistics would mix organisations.
alter table private.search_chunks set (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
alter table private.search_chunks alter column keys set storage main, alter column counts set storage main,
  alter column keys set statistics 0;
select private.protect_table('private.search_chunks');

create table private.search_terms (
  org_number integer not null,
  key integer not null,
  chunks integer not null,
  primary key (org_number, key)
) with (fillfactor = 90);
select private.protect_table('private.search_terms');

create table private.indexing_queue (
  document_id uuid primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  -- The number of the change: a document that changes while it is indexed stays queued.
  change bigint generated always as identity
);
create index indexing_queue_org_id on private.indexing_queue (org_id);
select private.protect_table('private.indexing_queue');

-- Queues a document for indexing. One job per organisation at a time, because the jobs update the same statistics.
create function private.queue_for_indexing(p_document_id uuid, p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_is_new boolean;
begin
  if exists (select from private.organisation_deletions where org_id = p_org_id)
    or not exists (select from public.organisations where id = p_org_id) then
    return;
  end if;
  insert into private.indexing_queue as due (document_id, org_id) values (p_document_id, p_org_id)
  on conflict (document_id) do update set change = default
  returning xmax = 0 into v_is_new;
  if v_is_new then
    perform private.enqueue('search', 'index_document', jsonb_build_object('document_id', p_document_id),
      p_org_id || '/search');
  end if;
end $$;

create function private.queue_changed_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.queue_for_indexing(coalesce(new.id, old.id), coalesce(new.org_id, old.org_id));
  return null;
end $$;

-- Queues the document of a changed extraction or auto-creation.
create function private.queue_document_of_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.queue_for_indexing(id, org_id) from public.documents
  where id = coalesce(new.document_id, old.document_id) and (tg_op = 'DELETE' or status = 'ready');
  return null;
end $$;

create trigger read_is_due after update of status on public.documents
  for each row when (old.status <> 'ready' and new.status = 'ready') execute function private.queue_changed_document();
create trigger renamed_is_due after update of filename on public.documents
  for each row when (old.filename <> new.filename and new.status = 'ready') execute function private.queue_changed_document();
create trigger deleted_is_due after delete on public.documents
  for each row when (old.status = 'ready') execute function private.queue_changed_document();
create trigger completed_is_due after update of status, extracted_fields, document_type on public.extractions
  for each row when (
    (old.status = 'completed' or new.status = 'completed') and (
      old.status <> new.status or old.extracted_fields <> new.extracted_fields
      or old.document_type is distinct from new.document_type))
  execute function private.queue_document_of_row();
create trigger deleted_is_due after delete on public.extractions
  for each row when (old.status = 'completed') execute function private.queue_document_of_row();
create trigger decided_is_due after update of status on public.auto_creations
  for each row when (new.status = 'accepted' and old.status <> new.status) execute function private.queue_document_of_row();

create function private.count_unindexed_documents(p_org_id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from private.indexing_queue
  where org_id = p_org_id and p_org_id in (select private.my_org_ids())
$$;

-- Returns the stem of each term, without accents; null for stop words. One call for all terms is three times faster.
create function private.search_stems(p_language text, p_terms text[]) returns table (term text, stem text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select given, case when found.stem ~ '[^\x01-\x7f]' then
    normalize(regexp_replace(normalize(found.stem, NFD), '[\u0300-\u036f]', '', 'g'), NFC) else found.stem end
  from (select case when p_language <> 'simple' then (p_language || '_stem')::regdictionary end as of_it offset 0) as d
  cross join unnest(p_terms) as given
  cross join lateral (
    select case when d.of_it is null or given ~ '[0-9]' then given else (ts_lexize(d.of_it, given))[1] end as stem
    offset 0) as found
  where found.stem is not null
$$;

-- Returns what a queued document is indexed from. Called by the service, for all tenants.
create function private.search_source(p_document_id uuid) returns table (
  change bigint, org_id uuid, is_ready boolean, filename text, document_type text, texts text[])
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select due.change, due.org_id, coalesce(d.status = 'ready', false), d.filename, e.document_type, array(
    -- Short values outside lists.
    select text from public.fields
    where extraction_id = e.id and indexes = '{}' and kind in ('text', 'day') and char_length(text) <= 80 order by id limit 40)
  from private.indexing_queue as due
  left join public.documents as d on d.id = due.document_id and d.org_id = due.org_id
  left join public.current_extractions as e on e.document_id = d.id
  where due.document_id = p_document_id
$$;

create function private.search_words(p_document_id uuid, p_after integer, p_pages integer)
returns table (number integer, words text[])
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select number, array(select word ->> 0 from jsonb_array_elements(words) with ordinality as w (word, n) order by n)
  from public.document_pages where document_id = p_document_id and number > p_after order by number limit p_pages
$$;

-- Replaces the chunks of a document that changed, and updates the statistics. Returns false if the document changed
-- meanwhile.
create function private.write_search_chunks(p_document_id uuid, p_change bigint, p_chunks jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  v_org_id uuid := (select org_id from private.indexing_queue where document_id = p_document_id);
  v_org private.search_orgs;
  v_chunks private.search_chunks[] := array[]::private.search_chunks[];
  v_old private.search_chunks[];
  v_new private.search_chunks[];
  v_new_keys integer[];
  v_old_keys integer[];
begin
  if v_org_id is null then
    return true;
  end if;
  insert into private.search_orgs (org_id) values (v_org_id) on conflict do nothing;
  select * into v_org from private.search_orgs where org_id = v_org_id for update;
  perform from public.documents where id = p_document_id and org_id = v_org_id and status = 'ready' for key share;
  if found then
    select coalesce(array_agg(row(p_document_id, p.number, v_org.number, p.page, p.first_word, p.last_word, p.language,
      p.length, array(select (hashtextextended(term, v_org.seed) >> 32)::integer
        from unnest(p.terms) with ordinality as t (term, n) order by n),
      decode(p.counts, 'hex'))::private.search_chunks), '{}')
    into v_chunks
    from jsonb_to_recordset(p_chunks) as p (
      number integer, page integer, first_word integer, last_word integer, language text, length integer, terms text[],
      counts text);
  end if;

  -- A chunk that stays as it is costs nothing: its keys are dear to write.
  with removed as (
    delete from private.search_chunks as p where document_id = p_document_id and p <> all (v_chunks) returning p
  )
  select coalesce(array_agg(p), '{}') into v_old from removed;
  with added as (
    insert into private.search_chunks as p select (unnest(v_chunks)).* on conflict do nothing returning p
  )
  select coalesce(array_agg(p), '{}') into v_new from added;
  with each as (
    select (unnest(v_new)).*, 1 as n union all select (unnest(v_old)).*, -1
  )
  update private.search_orgs set
    chunks = chunks + (select coalesce(sum(n), 0) from each),
    page_chunks = page_chunks + (select coalesce(sum(n), 0) from each where number > 0),
    terms = terms + (select coalesce(sum(n * length), 0) from each where number > 0),
    languages = array(select unnest(languages) union select language from each where n > 0 order by 1)
  where org_id = v_org_id;
  if exists (select from private.search_embedder)
    and exists (select from unnest(v_old || v_new) where number > 0) then
    -- (Waits for a concurrent writer of vectors of the old chunks.)
    insert into private.embedding_queue as due (org_id, document_id) values (v_org_id, p_document_id)
    on conflict (org_id, document_id) do update set change = default, tries = 0, taken_until = null;
    delete from private.search_vectors
    where org_number = v_org.number and document_id = p_document_id and number in (select number from unnest(v_old));
  end if;
  v_new_keys := array(select key from unnest(v_new) cross join lateral (select distinct unnest(keys)) as k (key));
  v_old_keys := array(select key from unnest(v_old) cross join lateral (select distinct unnest(keys)) as k (key));

  -- Only terms in more than one chunk are counted. The others are looked up in the index.
  with changed as (
    select key, sum(n) as n
    from (select unnest(v_new_keys) as key, 1 as n union all select unnest(v_old_keys), -1) as each group by key
  ), known as (
    update private.search_terms as t set chunks = t.chunks + c.n from changed as c
    where t.org_number = v_org.number and t.key = c.key and c.n <> 0
  )
  insert into private.search_terms (org_number, key, chunks)
  select v_org.number, c.key, there.chunks
  from changed as c
  cross join lateral (
    select count(*) as chunks from private.search_chunks as p
    where p.keys @> array[c.key] and p.org_number = v_org.number) as there
  where c.n > 0 and there.chunks > 1
    and not exists (select from private.search_terms as t where t.org_number = v_org.number and t.key = c.key);
  delete from private.search_terms where org_number = v_org.number and key = any (v_old_keys) and chunks <= 1;
  delete from private.indexing_queue where document_id = p_document_id and change = p_change;
  return found;
end $$;

-- Gives up after too many failed attempts. The entries of a document stay, but nothing of a deleted one may.
create function private.abandon_indexing(p_document_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from public.documents where id = p_document_id) then
    perform private.write_search_chunks(document_id, change, '[]')
    from private.indexing_queue where document_id = p_document_id;
  end if;
  delete from private.indexing_queue where document_id = p_document_id;
end $$;

create type private.search_hit as (
  document_id uuid, number integer, page integer, first_word integer, last_word integer, language text, score real);

-- Returns the best chunks for a query in an organisation that the caller can read; with p_documents only of these.
-- Security definer: row security prevents the use of GIN indexes, and statistics cover the whole organisation. So
-- it checks the caller itself; members read all documents of their organisation.
-- Rare terms select candidates until p_most are found; frequent terms only add to their scores, so the time does not
-- grow with the organisation. If rare terms find few, chunks with all frequent terms are added, then with half of them,
-- etc. Without p_with_fields the document chunks (names, extracted values) are ignored.
create function private.search(
  p_org_id uuid, p_terms text[], p_documents uuid[] default null, p_most integer default 4000, p_with_fields boolean default true
) returns setof private.search_hit
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_memoize = off set jit = off
-- Planned once per connection: planning takes as long as a small search, and parameters never change the plan.
set plan_cache_mode = force_generic_plan as $$
declare
  -- The usual BM25 values. Document chunks count as of average length.
  k1 constant real := 1.5;
  b constant real := 0.75;
  v_org private.search_orgs;
  v_average real;
  v_keys integer[];
  v_weights real[];
  v_chunks bigint[];
  v_rare integer := 0;
  v_candidates bigint := 0;
  v_required integer;
  v_is_filtered constant boolean := coalesce(cardinality(p_documents) <= p_most / 2, false);
  v_more tid[] := array[]::tid[];
begin
  select * into v_org from private.search_orgs where org_id = p_org_id and p_org_id in (select private.my_org_ids());
  if not found or v_org.chunks = 0 then
    return;
  end if;
  v_average := greatest(v_org.terms::real / greatest(v_org.page_chunks, 1), 1);
  select array_agg(key order by chunks, key), array_agg(chunks order by chunks, key),
    array_agg(ln(1 + (v_org.chunks - chunks + 0.5) / (chunks + 0.5)) order by chunks, key)
  into v_keys, v_chunks, v_weights
  from (
    select asked.key, coalesce(t.chunks, 1) as chunks
    from (
      select distinct (hashtextextended(word.stem, v_org.seed) >> 32)::integer as key
      from unnest(v_org.languages) as language, private.search_stems(language, p_terms) as word) as asked
    left join private.search_terms as t on t.org_number = v_org.number and t.key = asked.key) as each;
  if v_keys is null then
    return;
  end if;
  if not v_is_filtered then
    while v_rare < cardinality(v_keys) and v_candidates + v_chunks[v_rare + 1] <= p_most loop
      v_rare := v_rare + 1;
      v_candidates := v_candidates + v_chunks[v_rare];
    end loop;
    v_required := cardinality(v_keys) - v_rare;
    while v_required > 0 and v_candidates < greatest(p_most / 20, 1) loop
      select coalesce(array_agg(one.ctid), '{}') into v_more
      from (
        select ctid from private.search_chunks
        where keys @> v_keys[v_rare + 1:v_rare + v_required] and org_number = v_org.number and (p_with_fields or number > 0)
          and (p_documents is null or document_id in (select unnest(p_documents)))
        limit greatest(p_most / 4, 1) offset 0) as one;  -- each is scored completely, which takes longer
      v_candidates := cardinality(v_more);
      v_required := v_required / 2;
    end loop;
  end if;

  return query
    -- (Rows are fetched by ctid: by key would take four times as long. This is safe because the function is
    -- stable: it sees one snapshot, that of the calling statement.)
    with by_rare_term as (
      select p.at, p.document_id, p.number,
        t.weight * tf.n * (k1 + 1) / (tf.n + k1 * (1 - b + b * case when p.number = 0 then 1 else p.length / v_average end))
          as score
      from unnest(v_keys[:v_rare], v_weights[:v_rare]) as t (key, weight)
      cross join lateral (
        select one.ctid as at, one.document_id, one.number, one.length, one.counts,
          array_position(one.keys, t.key) as place
        from private.search_chunks as one
        where one.keys @> array[t.key] and one.org_number = v_org.number
          and (p_with_fields or one.number > 0) and (p_documents is null or one.document_id in (select unnest(p_documents)))
        limit p_most offset 0) as p
      cross join lateral (
        -- (`offset 0` makes Postgres compute it once instead of inlining it.)
        select case when p.place <= length(p.counts) then get_byte(p.counts, p.place - 1) else 1 end offset 0) as tf (n)
    ), summed as (
      select at, document_id, number, sum(score) as score from by_rare_term group by at, document_id, number
    ), candidate as (
      select s.at, s.document_id, s.number, s.score from (
        -- The score of the document chunk counts for each of its chunks.
        select *, score + case when number > 0 then
          coalesce(max(score) filter (where number = 0) over (partition by document_id), 0) else 0 end as in_all
        from summed) as s
      order by s.in_all desc limit 500
    ), chosen as (
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, c.score,
        v_rare as scored_terms
      from candidate as c join private.search_chunks as p on p.ctid = c.at
      union all
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, 0, 0
      from (
        (select unnest(v_more) as at
        union
        select of_fields.ctid from (select distinct document_id from candidate) as c
        join private.search_chunks as of_fields on of_fields.document_id = c.document_id and of_fields.number = 0 and p_with_fields)
        except
        select at from candidate) as c
      join private.search_chunks as p on p.ctid = c.at
      union all
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, 0, 0
      from private.search_chunks as p
      where v_is_filtered and p.document_id = any (p_documents) and p.org_number = v_org.number and (p_with_fields or p.number > 0)
    ), scored as (
      select c.document_id, c.number, c.page, c.first_word, c.last_word,
        c.language, c.score + coalesce(rest.score, 0) as score
      from chosen as c
      left join lateral (
        select sum(t.weight * tf.n * (k1 + 1)
          / (tf.n + k1 * (1 - b + b * case when c.number = 0 then 1 else c.length / v_average end))) as score
        from unnest(v_keys[c.scored_terms + 1:], v_weights[c.scored_terms + 1:]) as t (key, weight)
        cross join lateral (select array_position(c.keys, t.key) offset 0) as a (place)
        cross join lateral (
          select case when a.place <= length(c.counts) then get_byte(c.counts, a.place - 1) else 1 end
          offset 0) as tf (n)
        where a.place is not null
      ) as rest on true
    ), answer as (
      select r.*, max(r.score) filter (where r.number = 0) over of_document as document_score,
        count(*) filter (where r.number > 0) over of_document as page_chunks
      from scored as r where r.score > 0
      window of_document as (partition by r.document_id)
    )
    select a.document_id, a.number, a.page, a.first_word, a.last_word, a.language, (a.score + coalesce(a.document_score, 0))::real
    from answer as a where a.number > 0
    union all
    -- A document found only by its document chunk is represented by its first chunk.
    select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, a.score::real
    from answer as a join private.search_chunks as p on p.document_id = a.document_id and p.number = 1
    where a.number = 0 and a.page_chunks = 0;
end $$;
