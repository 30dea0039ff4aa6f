-- Files to delete: originals of deleted documents, and for a day files about to be stored, in case the upload dies.

create table private.files_to_delete (
  storage_path text primary key,
  org_id uuid not null,
  due_at timestamptz not null default now(),
  created_at timestamptz not null default now()
);
create index files_to_delete_due_at on private.files_to_delete (due_at);
select private.protect_table('private.files_to_delete');

-- Security definer, like the functions below: no role has privileges on this table.
create function private.queue_files() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into private.files_to_delete (storage_path, org_id)
  select path, org_id from gone cross join lateral (values (storage_path), (unlocked_path)) as files (path)
  where path is not null on conflict (storage_path) do update set due_at = excluded.due_at;
  return null;
end $$;
create trigger queue_files after delete on public.documents
  referencing old table as gone for each statement execute function private.queue_files();

create function private.register_pending_files(p_paths text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into private.files_to_delete (storage_path, org_id, due_at)
  select path, split_part(path, '/', 1)::uuid, now() + interval '1 day' from unnest(p_paths) as path
  on conflict do nothing
$$;

-- Returns the oldest files to delete, except those that now belong to a document.
create function private.files_to_delete(p_most integer) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from private.files_to_delete as f using public.documents as d
  where d.id = split_part(f.storage_path, '/', 2)::uuid and f.storage_path in (d.storage_path, d.unlocked_path);
  return query
    select storage_path from private.files_to_delete where due_at <= now() order by due_at, storage_path limit p_most;
end $$;

create function private.unregister_deleted_files(p_paths text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  with gone as (delete from private.files_to_delete where storage_path = any (p_paths) returning org_id)
  update private.organisation_deletions as d set files_deleted = files_deleted + g.files
  from (select org_id, count(*) as files from gone group by org_id) as g where g.org_id = d.org_id;
end $$;
