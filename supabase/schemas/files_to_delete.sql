-- Originals whose documents are gone: whoever deleted a row, the worker deletes its file.

create table private.files_to_delete (
  storage_path text primary key,
  org_id uuid not null,
  created_at timestamptz not null default now()
);
create index files_to_delete_created_at on private.files_to_delete (created_at);
select private.protect_table('private.files_to_delete');

-- In the transaction that deletes the documents, through whichever door: the API, a statement, the end of an organisation.
-- Security definer, all that follow: nobody has a right on the queue.
create function private.queue_files() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into private.files_to_delete (storage_path, org_id) select storage_path, org_id from gone
  on conflict do nothing;
  return null;
end $$;
create trigger queue_files after delete on public.documents
  referencing old table as gone for each statement execute function private.queue_files();

-- The oldest files to delete. One that is a document's again is none any more.
create function private.files_to_delete(p_most integer) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  delete from private.files_to_delete as f using public.documents as d
  where d.id = split_part(f.storage_path, '/', 2)::uuid and d.storage_path = f.storage_path;
  return query select storage_path from private.files_to_delete order by created_at, storage_path limit p_most;
end $$;

-- These are deleted. They stay in the queue until then: a worker that dies in between leaves them to the next.
create function private.files_deleted(p_paths text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$ delete from private.files_to_delete where storage_path = any (p_paths) $$;

revoke execute on all functions in schema private from public;
grant execute on function private.files_to_delete(integer), private.files_deleted(text[]) to fieldmark_app;
