-- Documents: uploaded files, and their pages with words and boxes.

create table public.documents (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation() references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  filename text not null check (char_length(filename) between 1 and 255),
  -- `<org_id>/<document_id>/<name>` in the bucket `documents` or below FIELDMARK_HOME/files. A front end chooses the
  -- name, so `..` must be rejected. The service accepts the same names (files/stored_path.py).
  storage_path text not null constraint lies_in_its_own_folder check (
    left(storage_path, 74) = org_id::text || '/' || id::text || '/'
    -- (A constant pattern: one built from the row would be compiled for each row.)
    and substr(storage_path, 75)
      ~ '^[^/\\%[:cntrl:]\u0080-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+$'
    and substr(storage_path, 75) !~ '^\.+$' and octet_length(storage_path) <= 329
  ),
  media_type text check (char_length(media_type) between 1 and 200),
  byte_size bigint check (byte_size >= 0),
  -- SHA-256 of the original, to find duplicates. Null until the document is read.
  content_sha256 text check (content_sha256 ~ '^[0-9a-f]{64}$'),
  status text not null default 'reading' check (status in ('reading', 'ready', 'failed')),
  -- Why reading failed: a sentence for people and a code for programs.
  error text,
  error_code text check (error_code in (
    'password', 'damaged', 'wrong_type', 'no_text', 'over_limit', 'unsupported', 'unreadable', 'not_found', 'too_large',
    'quota_exceeded', 'not_installed'
  )),
  check (error is not null or error_code is null),
  -- [{code, page, count, excerpt}, …]: what could not be read, or not well. `page` is null for the whole file;
  -- `excerpt` is untrusted text, for people only.
  warnings jsonb not null default '[]' check (jsonb_typeof(warnings) = 'array'),
  page_count integer check (page_count > 0),
  pages_read integer check (pages_read >= 0),
  pages_to_read integer check (pages_to_read >= pages_read),
  auto_create boolean,
  -- Whether its fields are extracted once it is read, with a version of a schema or without one. Files inside it inherit
  -- both (uploads.sql).
  extract_when_read boolean not null default false,
  extract_revid uuid,
  -- What its extractions say. Maintained by current_extractions.sql, which also has the stage that users see.
  extraction_stage text not null default 'ready' check (extraction_stage in ('ready', 'needs_review', 'extracted', 'reviewed')),
  -- The caller's own key and data, returned with the document everywhere.
  external_id text check (external_id ~ '^[[:graph:]]([[:print:]]{0,198}[[:graph:]])?$'),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object' and octet_length(metadata::text) <= 20000),
  -- For a file inside a mail or an archive: the outer document, and the file's number in it.
  parent_document_id uuid,
  number_in_parent integer check (number_in_parent > 0),
  -- The member who checks it.
  assignee_id uuid,
  -- A decrypted copy made by the service. The name is random, so no client can have stored a file under it.
  unlocked_path text constraint unlocked_lies_beside_the_original check (
    left(unlocked_path, 74) = left(storage_path, 74) and substr(unlocked_path, 75) ~ '^unlocked-[0-9a-f]{32}$'
  ),
  unique (id, org_id),
  foreign key (parent_document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (org_id, assignee_id) references public.memberships (org_id, user_id) on delete set null (assignee_id),
  check ((parent_document_id is null) = (number_in_parent is null)),
  check ((status = 'failed') = (error is not null)),
  check (status <> 'ready' or (media_type is not null and page_count is not null)),
  check (extract_revid is null or extract_when_read)
);
create index documents_org_id on public.documents (org_id, created_at desc, id desc);
create index documents_status on public.documents (org_id, status, created_at desc, id desc);
create index documents_extraction_stage on public.documents (org_id, extraction_stage, created_at desc, id desc)
  include (status);
create index documents_media_type on public.documents (org_id, media_type, created_at desc, id desc);
create index documents_content_sha256 on public.documents (org_id, content_sha256, created_at, id)
  where content_sha256 is not null;
create unique index documents_parent_document_id on public.documents (parent_document_id, number_in_parent)
  where parent_document_id is not null;
create index documents_extract_revid on public.documents (extract_revid, org_id) where extract_revid is not null;
create index documents_assignee_id on public.documents (org_id, assignee_id, created_at desc, id desc)
  where assignee_id is not null;
create unique index documents_external_id on public.documents (org_id, external_id) where external_id is not null;
select private.protect_table('public.documents', p_members_read => true);
grant insert (
  id, org_id, user_id, filename, storage_path, media_type, byte_size, content_sha256, parent_document_id, number_in_parent,
  unlocked_path, auto_create, external_id, metadata, extract_when_read, extract_revid
) on public.documents to authenticated;
grant update (status, error, error_code, warnings, media_type, byte_size, content_sha256, page_count,
  pages_read, pages_to_read, external_id, metadata, extract_when_read, extract_revid)
  on public.documents to authenticated;

create table public.document_pages (
  document_id uuid not null,
  org_id uuid not null,
  number integer not null check (number > 0),
  -- Points for paged formats, pixels for images. (NaN counts as greater than every number: the upper bound refuses it.)
  width real not null check (width > 0 and width < 'Infinity'),
  height real not null check (height > 0 and height < 'Infinity'),
  text text not null,
  -- [[text, x0, y0, x1, y1] or [text, x0, y0, x1, y1, confidence], …]: 0..1 of the page, origin top left.
  words jsonb not null check (jsonb_typeof(words) = 'array'),
  -- The reader: pdf, rapidocr, docx, xlsx, html, email, text, csv, xml, zip, …
  engine text not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (document_id, number),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
select private.protect_table('public.document_pages', p_members_read => true);
grant insert (document_id, org_id, number, width, height, text, words, engine)
  on public.document_pages to authenticated;

-- The full text of a document, for front ends. Derived from the pages.
create view public.ocr_results with (security_invoker = true) as
  select p.document_id, p.org_id, d.user_id, string_agg(p.text, E'\n\n' order by number) as raw_text,
    count(*)::integer as page_count, string_agg(distinct engine, '+' order by engine) as engine,
    min(p.created_at) as created_at
  from public.document_pages as p join public.documents as d on d.id = p.document_id
  group by p.document_id, p.org_id, d.user_id;
revoke all on public.ocr_results from anon, authenticated;
grant select on public.ocr_results to authenticated;

create policy "members add documents of their own" on public.documents for insert to authenticated
  with check (
    org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by
    and (num_nonnulls(parent_document_id, unlocked_path, content_sha256) = 0 or (select private.is_service()))
  );
create policy "the service records what a reading found" on public.documents
  for update to authenticated using (org_id in (select private.my_org_ids()) and (select private.is_service()));

create policy "the service writes pages" on public.document_pages
  for insert to authenticated with check (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Deletes a document and returns the path of its original.
-- Security definer, like all deletes: a role with the delete privilege could also lock the whole table.
create function public.delete_document(p_document_id uuid) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_path text;
begin
  perform from public.extractions
  where document_id = p_document_id and org_id in (select private.my_writable_org_ids()) for update;
  delete from public.documents
  where id = p_document_id and private.may_delete(org_id, created_by)
  returning storage_path into v_path;
  perform private.check_found(found, 'document');
  return v_path;
end $$;

create function private.clear_pages(p_document_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from public.document_pages
  where document_id = p_document_id and org_id in (select private.my_org_ids()) and private.is_service()
$$;

-- Counts the files inside a document, at any depth, and their pages that are read already.
create function private.count_enclosed(p_document_id uuid) returns table (files bigint, bytes bigint, pages bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive enclosed as (
    select id, byte_size, page_count from public.documents where parent_document_id = p_document_id
    union all
    select deeper.id, deeper.byte_size, deeper.page_count from enclosed join public.documents as deeper on deeper.parent_document_id = enclosed.id
  )
  select count(*), coalesce(sum(byte_size), 0)::bigint, coalesce(sum(page_count), 0) from enclosed
$$;

create function private.scope_of_document(p_document_id uuid) returns table (user_id uuid, org_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select created_by, org_id from public.documents where id = p_document_id $$;

create function private.fail_document(p_document_id uuid, p_error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.documents set status = 'failed', error = p_error, error_code = 'unreadable'
  where id = p_document_id and status = 'reading'
$$;
