-- Organisations: the tenants, who belongs to them, and the functions that row policies ask.

create table public.organisations (
  id uuid primary key default private.new_id(),
  name text not null check (char_length(name) between 1 and 200),
  -- The user whose personal organisation this is. It is made when that user is first seen.
  personal_of uuid unique,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now()
);
select private.protect_table('public.organisations');
grant select, update (name) on public.organisations to authenticated;

create table public.memberships (
  org_id uuid not null references public.organisations (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null check (role in ('owner', 'member')),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index memberships_user_id on public.memberships (user_id);
select private.protect_table('public.memberships');
grant select, insert (org_id, user_id, role), update (role) on public.memberships to authenticated;

-- The caller's memberships that count here. The service acts in one organisation at a time and names it beside the user,
-- so a request in one organisation never reaches another of the same user. A front end acts in all of them.
-- Security definer, because a policy on memberships that read memberships would call itself.
create function private.my_memberships() returns setof public.memberships
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select * from public.memberships
  where user_id = (select auth.uid())
    and org_id::text = coalesce(
      (select case when private.is_service() then auth.jwt() ->> 'org_id' end), org_id::text)
$$;

create function private.my_org_ids() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select org_id from private.my_memberships() $$;

create function private.my_owned_org_ids() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select org_id from private.my_memberships() where role = 'owner' $$;

-- The caller enters. Answers the organisation to act in, or null where `p_org` is not one of the caller's. Without
-- `p_org` it is the personal organisation, which is made on first sight.
create function private.enter(p_org uuid default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_user uuid := auth.uid();
  v_org uuid;
begin
  if v_user is null then
    raise exception 'Nobody is signed in.' using errcode = 'PT401';
  end if;
  if p_org is not null then
    return (select org_id from public.memberships where user_id = v_user and org_id = p_org);
  end if;
  select id into v_org from public.organisations where personal_of = v_user;
  if v_org is not null then
    return v_org;
  end if;
  -- On plain Postgres users are known when first seen; on Supabase Auth has made them already.
  if to_regprocedure('auth.know_user(uuid)') is not null then
    execute 'select auth.know_user($1)' using v_user;
  end if;
  insert into public.organisations (name, personal_of, created_by) values ('Personal', v_user, v_user)
  on conflict (personal_of) do nothing;
  select id into v_org from public.organisations where personal_of = v_user;
  insert into public.memberships (org_id, user_id, role, created_by) values (v_org, v_user, 'owner', v_user)
  on conflict do nothing;
  return v_org;
end $$;

revoke execute on all functions in schema private from public;
grant execute on function private.my_org_ids(), private.my_owned_org_ids(), private.enter(uuid)
  to authenticated, fieldmark_app;

create policy "members see their organisations" on public.organisations
  for select to authenticated using (id in (select private.my_org_ids()));
create policy "owners rename their organisations" on public.organisations
  for update to authenticated using (id in (select private.my_owned_org_ids()));

create policy "members see who belongs to their organisations" on public.memberships
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "owners add members to their organisations" on public.memberships
  for insert to authenticated with check (org_id in (select private.my_owned_org_ids()));
-- Whose personal organisation it is stays its owner: entering it would otherwise lead nowhere.
create policy "owners change roles in their organisations" on public.memberships
  for update to authenticated
  using (
    org_id in (select private.my_owned_org_ids())
    and user_id is distinct from (select o.personal_of from public.organisations as o where o.id = org_id)
  );

-- Removes a member, as an owner, or leaves. Whose personal organisation it is stays.
create function public.remove_member(p_org_id uuid, p_user_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  delete from public.memberships
  where org_id = p_org_id and user_id = p_user_id
    and (
      org_id in (select private.my_owned_org_ids())
      or (org_id in (select private.my_org_ids()) and user_id = auth.uid()))
    and user_id is distinct from (select o.personal_of from public.organisations as o where o.id = org_id);
  if not found then
    raise exception 'There is no such member whom you may remove.' using errcode = 'PT404';
  end if;
end $$;

revoke execute on function public.remove_member(uuid, uuid) from public, anon;
grant execute on function public.remove_member(uuid, uuid) to authenticated;
