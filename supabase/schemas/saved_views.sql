-- Saved views: what a table shows (filter, order, group, hidden columns), with a name, for all members.

create table public.saved_views (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  -- The table is that of a schema or of a stack.
  schema_id uuid,
  stack_id uuid,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  -- As the web UI reads it.
  settings jsonb not null check (jsonb_typeof(settings) = 'object' and octet_length(settings::text) <= 20000),
  constraint is_of_one_table check (num_nonnulls(schema_id, stack_id) = 1),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade,
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade
);
create unique index saved_views_name on public.saved_views (coalesce(stack_id, schema_id), lower(name));
create index saved_views_schema_id on public.saved_views (schema_id, org_id);
create index saved_views_stack_id on public.saved_views (stack_id, org_id);
create index saved_views_org_id on public.saved_views (org_id);
select private.protect_table('public.saved_views', p_members_read => true);
grant insert (id, org_id, user_id, schema_id, stack_id, name, settings), update (name, settings)
  on public.saved_views to authenticated;

create policy "members save views" on public.saved_views for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);
create policy "members change views" on public.saved_views
  for update to authenticated using (org_id in (select private.my_writable_org_ids()));

-- All views of a table are listed at once.
create function private.check_saved_view() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(
    (select count(*) from public.saved_views where coalesce(stack_id, schema_id) = coalesce(new.stack_id, new.schema_id)) < 200,
    'The table has 200 views, the maximum. Delete one first.', 'PT409', 'too_many');
  return new;
end $$;
create trigger check_saved_view before insert on public.saved_views
  for each row execute function private.check_saved_view();

create function public.delete_saved_view(p_view_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.saved_views where id = p_view_id and org_id in (select private.my_writable_org_ids());
  perform private.check_found(found, 'view');
end $$;
