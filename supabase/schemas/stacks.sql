-- Stacks: named sets of documents with one table. Its schema is the stack's own; its rows are extractions under it.

create table public.stacks (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation() references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  unique (id, org_id)
);
create unique index stacks_name on public.stacks (org_id, lower(name));
create index stacks_org_id on public.stacks (org_id, created_at desc, id desc);
select private.protect_table('public.stacks', p_members_read => true);
grant insert (id, org_id, user_id, name), update (name) on public.stacks to authenticated;

create table public.stack_documents (
  org_id uuid not null default private.only_organisation(),
  stack_id uuid not null,
  document_id uuid not null,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  primary key (stack_id, document_id),
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade,
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
create index stack_documents_document_id on public.stack_documents (document_id);
create index stack_documents_org_id on public.stack_documents (org_id);
select private.protect_table('public.stack_documents', p_members_read => true);
grant insert (org_id, user_id, stack_id, document_id) on public.stack_documents to authenticated;

-- Exists once the columns are defined: they are the fields of the latest version of the schema.
create table public.stack_tables (
  stack_id uuid primary key,
  org_id uuid not null,
  schema_id uuid not null,
  -- The list whose items are the rows; null: one row per document.
  row_path text check (char_length(row_path) between 1 and 500),
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade,
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade
);
create unique index stack_tables_schema_id on public.stack_tables (schema_id);
create index stack_tables_org_id on public.stack_tables (org_id);
select private.protect_table('public.stack_tables', p_members_read => true, p_service => '{insert,update}');
grant insert (stack_id, org_id, schema_id, row_path), update (row_path, schema_id) on public.stack_tables to authenticated;

create policy "members create stacks of their own" on public.stacks for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);
create policy "members add documents" on public.stack_documents for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);
create policy "members rename their stacks" on public.stacks
  for update to authenticated using (org_id in (select private.my_writable_org_ids()));

-- Deletes a stack with its runs. Its documents, its schema and their extractions stay.
create function public.delete_stack(p_stack_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.cancel_run(r.id, 'The stack was deleted.') from public.stacks as s join public.runs as r on r.stack_id = s.id
  where s.id = p_stack_id and private.may_delete(s.org_id, s.created_by)
    and r.status not in ('completed', 'failed', 'cancelled');
  delete from public.stacks where id = p_stack_id and private.may_delete(org_id, created_by);
  perform private.check_found(found, 'stack');
end $$;

create function public.remove_stack_document(p_stack_id uuid, p_document_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.stack_documents
  where stack_id = p_stack_id and document_id = p_document_id and org_id in (select private.my_writable_org_ids());
  perform private.check_found(found, 'document in this stack');
  -- A run that fills the table reads it no more.
  perform private.cancel_run(r.id, 'The document was taken out of the stack.')
  from public.runs as p join public.runs as r on r.parent_run_id = p.id
  where p.stack_id = p_stack_id and r.document_id = p_document_id
    and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs');
end $$;

create function private.count_references_to_schema(p_schema_id uuid)
returns table (prompts bigint, extractions bigint, stacks bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  -- (Starts from the versions that reference the schema instead of every prompt's latest version.)
  select (select count(*) from public.prompt_versions as v
      where v.schema_id = p_schema_id
        and not exists (select from public.prompt_versions as w where w.prompt_id = v.prompt_id and w.number > v.number)
        and exists (select from public.prompts as p where p.id = v.prompt_id and p.deleted_at is null)),
    (select count(*) from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
      where v.schema_id = p_schema_id),
    (select count(*) from public.stack_tables where schema_id = p_schema_id)
$$;
