-- Who may see what: the service's login role, organisations, memberships, and the private functions policies lean on.

-- Keys and policies lock tables of Supabase's that are in use: rather give up than let everybody wait.
set local lock_timeout = '10s';
set local statement_timeout = '60s';

-- The service logs in as fieldmark_app: no owner, no superuser, no BYPASSRLS. It may only become what PostgREST becomes.
do $$
begin
  if not exists (select from pg_roles where rolname = 'fieldmark_app') then
    create role fieldmark_app login noinherit;
  end if;
end $$;
grant authenticated, anon to fieldmark_app;

-- `private` holds what policies and the service call; PostgREST does not expose it. `queue` holds procrastinate's tables.
create schema if not exists private;
create schema if not exists queue;
revoke all on schema private, queue from public;
grant usage on schema private to authenticated, fieldmark_app;
grant usage on schema queue to fieldmark_app;

create table public.organisations (
  id uuid primary key default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 200),
  -- The user whose personal organisation this is; made when that user is first seen.
  personal_of uuid unique,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now()
);

create table public.memberships (
  org_id uuid not null references public.organisations (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null check (role in ('owner', 'member')),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index memberships_user_id on public.memberships (user_id);

-- Whether this is a connection of the service (and not PostgREST's): set role does not change session_user.
create function private.is_service() returns boolean
language sql stable set search_path = ''
as $$ select pg_catalog.pg_has_role(session_user, 'fieldmark_app', 'member') $$;

-- The caller's memberships that count here. The service acts in one organisation at a time, which it names beside the
-- user, so that a request in one organisation never reaches another of the same user; a front end acts in all.
-- Security definer, because a policy on memberships that read memberships would call itself.
create function private.my_memberships() returns setof public.memberships
language sql stable security definer set search_path = ''
as $$
  select * from public.memberships
  where user_id = (select auth.uid())
    and org_id::text = coalesce(
      (select case when private.is_service() then auth.jwt() ->> 'org_id' end), org_id::text)
$$;

create function private.my_org_ids() returns setof uuid
language sql stable security definer set search_path = ''
as $$ select org_id from private.my_memberships() $$;

create function private.my_owned_org_ids() returns setof uuid
language sql stable security definer set search_path = ''
as $$ select org_id from private.my_memberships() where role = 'owner' $$;

-- The caller enters: makes a personal organisation on first sight and answers the organisation to act in, or null where
-- `p_org` is not one of the caller's.
create function private.enter(p_org uuid default null) returns uuid
language plpgsql security definer set search_path = ''
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

alter table public.organisations enable row level security;
alter table public.organisations force row level security;
alter table public.memberships enable row level security;
alter table public.memberships force row level security;

revoke all on public.organisations, public.memberships from anon, authenticated;
grant select, update (name) on public.organisations to authenticated;
grant select, insert (org_id, user_id, role), update (role), delete on public.memberships to authenticated;
revoke execute on all functions in schema private from public;
grant execute on function private.my_org_ids(), private.my_owned_org_ids(), private.is_service(), private.enter(uuid)
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
create policy "owners remove members and members leave" on public.memberships
  for delete to authenticated
  using (
    (
      org_id in (select private.my_owned_org_ids())
      or (org_id in (select private.my_org_ids()) and user_id = (select auth.uid()))
    )
    and user_id is distinct from (select o.personal_of from public.organisations as o where o.id = org_id)
  );
