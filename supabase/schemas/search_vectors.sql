-- Semantic search (optional): a vector for each page chunk, made by the configured embedder.
--
-- Vectors are compared by pgvector, which `fieldmark migrate` installs if it is available; without it nothing
-- is written here. Vectors are stored as plain arrays, so the tables are the same everywhere. They are compared one by one
-- within one organisation: with a shared index, other tenants' chunks would affect the results.

create table private.search_embedder (
  is_singleton boolean primary key default true check (is_singleton),
  name text not null
);
select private.protect_table('private.search_embedder');

create table private.search_vectors (
  org_number integer not null,
  document_id uuid not null,
  number integer not null check (number > 0),
  embedder text not null,
  embedding real[] not null,
  primary key (org_number, document_id, number)
);
alter table private.search_vectors set (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
alter table private.search_vectors alter column embedding set storage external,
  alter column embedding set statistics 0;
select private.protect_table('private.search_vectors');

-- There are no jobs for these documents: workers lease them from this table.
create table private.embedding_queue (
  org_id uuid not null references public.organisations (id) on delete cascade,
  document_id uuid not null,
  -- The number of the change: vectors of earlier chunks are not written.
  change bigint generated always as identity,
  tries integer not null default 0,
  taken_until timestamptz,
  primary key (org_id, document_id)
);
create index embedding_queue_next on private.embedding_queue (org_id, tries, change);
select private.protect_table('private.embedding_queue');

create function private.has_vectors() returns boolean language sql stable set search_path = pg_catalog, pg_temp
as $$ select exists (select from pg_extension where extname = 'vector') $$;

-- Sets the embedder. If it changed, every document is queued.
create function private.use_embedder(p_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from private.search_embedder where name = p_name) then
    return;
  end if;
  insert into private.search_embedder (name) values (p_name)
  on conflict (is_singleton) do update set name = excluded.name;
  insert into private.embedding_queue as due (org_id, document_id)
  select o.org_id, p.document_id from private.search_chunks as p
  join private.search_orgs as o on o.number = p.org_number where p.number = 1
  on conflict (org_id, document_id) do update set change = default, tries = 0, taken_until = null;
end $$;

-- Leases a queued document of a random organisation, using indexes only. After a failure the lease is longer.
create function private.lease_document_for_embedding(p_seconds double precision)
returns table (document_id uuid, org_id uuid, change bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_org uuid;
begin
  for v_org in
    with recursive one (id) as (
      (select org_id from private.embedding_queue order by org_id limit 1) union all
      select (select org_id from private.embedding_queue where org_id > one.id order by org_id limit 1)
      from one where one.id is not null
    ) select id from one where id is not null order by random()
  loop
    return query
      update private.embedding_queue as due set tries = due.tries + 1,
        taken_until = clock_timestamp() + make_interval(secs => p_seconds * least(due.tries + 1, 10))
      where due.org_id = v_org and due.document_id = (
        select document_id from private.embedding_queue
        where org_id = v_org and (taken_until is null or taken_until < clock_timestamp())
        order by tries, change limit 1 for update skip locked)
      returning due.document_id, due.org_id, due.change;
    exit when found;
  end loop;
end $$;

create function private.chunks_without_vectors(
  p_org_id uuid, p_document_id uuid, p_change bigint, p_embedder text, p_most integer)
returns table (number integer, page integer, first_word integer, last_word integer)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.number, p.page, p.first_word, p.last_word
  from private.embedding_queue as due
  join private.search_orgs as o on o.org_id = due.org_id
  join public.documents as d on d.id = due.document_id and d.org_id = due.org_id and d.status = 'ready'
  join private.search_chunks as p on p.document_id = due.document_id and p.org_number = o.number and p.number > 0
  where due.org_id = p_org_id and due.document_id = p_document_id and due.change = p_change
    and not exists (
      select from private.search_vectors as v
      where v.org_number = o.number and v.document_id = p.document_id and v.number = p.number
        and v.embedder = p_embedder)
  order by p.number limit p_most
$$;

-- Stores vectors, unless the document changed meanwhile. An empty list means that none is missing.
create function private.write_search_vectors(
  p_org_id uuid, p_document_id uuid, p_change bigint, p_embedder text, p_vectors jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_number integer := (select number from private.search_orgs where org_id = p_org_id);
begin
  perform from private.embedding_queue
  where org_id = p_org_id and document_id = p_document_id and change = p_change for update;
  if not found then
    return;
  end if;
  if p_vectors = '[]' then
    delete from private.embedding_queue where org_id = p_org_id and document_id = p_document_id;
    delete from private.search_vectors as v where v.org_number = v_number and v.document_id = p_document_id
      and (v.embedder <> p_embedder or not exists (
        select from private.search_chunks as p where p.document_id = p_document_id and p.number = v.number));
    return;
  end if;
  insert into private.search_vectors (org_number, document_id, number, embedder, embedding)
  select v_number, p_document_id, v.number, p_embedder, v.embedding
  from jsonb_to_recordset(p_vectors) as v (number integer, embedding real[])
  join private.search_chunks as p on p.document_id = p_document_id and p.number = v.number and p.org_number = v_number
  where p_embedder like '%/' || cardinality(v.embedding) on conflict (org_number, document_id, number) do update
    set embedder = excluded.embedder, embedding = excluded.embedding;
  update private.embedding_queue set tries = 0, taken_until = null
  where org_id = p_org_id and document_id = p_document_id;
end $$;

create function private.count_unembedded_documents(p_org_id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from private.embedding_queue
  where org_id = p_org_id and p_org_id in (select private.my_org_ids())
$$;

-- Returns the chunks nearest to a vector by cosine, in one of the caller's organisations. Compares all of them.
create function private.search_nearest(
  p_org_id uuid, p_embedder text, p_vector real[], p_documents uuid[] default null, p_most integer default 300)
returns setof private.search_hit language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off as $$
declare
  v_number integer := (
    select o.number from private.search_orgs as o
    where o.org_id = p_org_id and p_org_id in (select private.my_org_ids()));
  v_schema text := (select extnamespace::regnamespace::text from pg_extension where extname = 'vector');
begin
  if v_number is null or v_schema is null then
    return;
  end if;
  return query execute format($query$
    select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, (1 - near.distance)::real
    from (
      select v.document_id, v.number, v.embedding::%1$s.vector operator(%1$s.<=>) $3::%1$s.vector as distance
      from private.search_vectors as v
      where v.org_number = $1 and v.embedder = $2 and ($4 is null or v.document_id in (select unnest($4)))
      order by distance, v.document_id, v.number limit $5) as near
    join private.search_chunks as p
      on p.document_id = near.document_id and p.number = near.number and p.org_number = $1
  $query$, v_schema) using v_number, p_embedder, p_vector, p_documents, p_most;
end $$;
