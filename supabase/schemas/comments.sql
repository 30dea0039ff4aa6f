-- People: who checks a document, and what members write to each other about it.

-- Assigns a document to a member who may write; null: to no one.
create function public.assign_document(p_document_id uuid, p_user_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
begin
  select org_id into v_org from public.documents
  where id = p_document_id and org_id in (select private.my_writable_org_ids()) for no key update;
  perform private.check_found(found, 'document');
  perform private.check_found(
    p_user_id is null or exists (
      select from public.memberships where org_id = v_org and user_id = p_user_id and role <> 'viewer'), 'member');
  update public.documents set assignee_id = p_user_id
  where id = p_document_id and assignee_id is distinct from p_user_id;
end $$;

create table public.comments (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  document_id uuid not null,
  -- The path of a value; null: about the document.
  path text check (char_length(path) between 1 and 1000),
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  body text not null check (char_length(btrim(body)) between 1 and 5000),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
create index comments_document_id on public.comments (document_id, created_at, id);
create index comments_org_id on public.comments (org_id);
select private.protect_table('public.comments', p_members_read => true);
grant insert (id, org_id, user_id, document_id, path, body) on public.comments to authenticated;

create policy "members comment" on public.comments for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);

create function public.delete_comment(p_comment_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.comments where id = p_comment_id and private.may_delete(org_id, created_by);
  perform private.check_found(found, 'comment');
end $$;
