-- Organisations: tenants, their members, and the functions that row policies call.

create table public.organisations (
  id uuid primary key default private.new_id(),
  name text not null check (char_length(name) between 1 and 200),
  -- The user whose personal organisation this is. Created on the user's first request.
  personal_of uuid unique,
  -- Who decides waiting calls: only owners, or all members.
  approvers text not null default 'members' check (approvers in ('owners', 'members')),
  -- Whether someone other than the run's creator must decide. Then every run requires approval.
  second_person boolean not null default false,
  -- Tools that no run asks about, unless a second person or an owner must decide.
  auto_approved_tools text[] not null default '{}'
    check (cardinality(auto_approved_tools) <= 50 and octet_length(auto_approved_tools::text) <= 5000),
  examples boolean not null default false,
  auto_create boolean not null default false,
  -- The share of wrong values among those that no one looks at that the organisation wants at most. 1: any.
  max_error numeric not null default 0.01 check (max_error between 0.001 and 1),
  -- What a second model reads again, unless a schema or a run says otherwise (private.second_reading).
  second_reading text not null default 'off' check (second_reading in ('off', 'unsure', 'all')),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now()
);
select private.protect_table('public.organisations');
grant select, update (name, approvers, second_person, auto_approved_tools, examples, auto_create, max_error,
  second_reading)
  on public.organisations to authenticated;

-- Viewers cannot write. Users become members only by accepting an invitation (invitations.sql).
create table public.memberships (
  org_id uuid not null references public.organisations (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null check (role in ('owner', 'member', 'viewer')),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index memberships_user_id on public.memberships (user_id);
create index memberships_org_id on public.memberships (org_id, created_at desc, user_id desc);
select private.protect_table('public.memberships');
grant select, update (role) on public.memberships to authenticated;

-- API keys. A key acts under its own id, with at most the current rights of its creator.
create table public.api_keys (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  -- The user who created it. The key ends with this user's membership.
  created_by uuid not null,
  created_at timestamptz not null default now(),
  name text not null check (char_length(name) between 1 and 200),
  -- The first characters, to recognise the key, and the SHA-256 of the key, which is not stored.
  prefix text not null check (prefix ~ '^fm_[0-9a-f]{8}$'),
  hash bytea not null unique check (octet_length(hash) = 32),
  scopes text[] not null check (cardinality(scopes) between 1 and 50),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by uuid
);
create index api_keys_org_id on public.api_keys (org_id, created_at desc, id desc);
select private.protect_table('public.api_keys');
grant select (
  id, org_id, created_by, created_at, name, prefix, scopes, expires_at, last_used_at, revoked_at, revoked_by
) on public.api_keys to authenticated;

-- Members and their keys, with their roles. The service checks a key's scopes (api/permissions.py); the role is an
-- upper bound. An expired key cannot act, but the runs it started continue.
create view private.actors as
  select org_id, user_id, role, false as is_key from public.memberships
  union all
  select k.org_id, k.id,
    case
      when m.role = 'viewer' or not exists (select from unnest(k.scopes) as scope where scope not like '%:read')
        then 'viewer'
      when k.scopes && array['members:write', 'keys:write', 'runs:approve', 'webhooks:write'] then m.role
      else 'member'
    end,
    true
  from public.api_keys as k
  join public.memberships as m on m.org_id = k.org_id and m.user_id = k.created_by
  where k.revoked_at is null;
revoke all on private.actors from public, anon, authenticated;

-- Whether users who signed in anonymously may act. `fieldmark migrate` sets it from FIELDMARK_ALLOW_ANONYMOUS. (Stable,
-- not immutable: cached plans must not keep its result.)
create function private.allows_anonymous() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$ select false $$;

-- Whether a front end's caller is signed in anonymously and refused. (The service checks tokens itself: identity/tokens.)
create function private.is_refused_anonymous() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$ select coalesce(auth.jwt() ->> 'is_anonymous' = 'true', false) and not private.allows_anonymous() $$;

-- The caller's memberships: for the service only in the organisation of the request, for a front end in all.
-- Security definer, because a policy on memberships calls it. (plpgsql caches the plan; every policy calls it.)
create function private.my_memberships() returns table (org_id uuid, role text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if private.is_service() then
    return query
      select a.org_id, a.role from private.actors as a
      where a.user_id = auth.uid() and a.org_id = coalesce((auth.jwt() ->> 'org_id')::uuid, a.org_id);
  else
    return query
      select m.org_id, m.role from public.memberships as m
      where m.user_id = auth.uid() and not private.is_refused_anonymous();
  end if;
end $$;

create function private.my_org_ids() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select org_id from private.my_memberships() $$;

create function private.my_writable_org_ids() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select org_id from private.my_memberships() where role in ('owner', 'member') $$;

create function private.my_owned_org_ids() returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select org_id from private.my_memberships() where role = 'owner' $$;

-- The organisation of rows that a front end inserts without one: the only one that the caller is a member of.
create function private.only_organisation() returns uuid
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_orgs uuid[] := array(select private.my_org_ids());
begin
  perform private.require(cardinality(v_orgs) > 0, 'You have no organisation. Call ensure_personal_organisation().');
  perform private.require(
    cardinality(v_orgs) = 1, 'You are a member of several organisations. Send the `org_id` of one of them.');
  return v_orgs[1];
end $$;

create function private.role_of(p_org_id uuid, p_user_id uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select role from private.actors where org_id = p_org_id and user_id = p_user_id $$;

-- Returns the user behind an id: for a key, its creator.
create function private.user_of(p_user_id uuid) returns uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select coalesce((select created_by from public.api_keys where id = p_user_id), p_user_id) $$;

-- Whether the caller may delete an item by its creator: members their own and their keys' items, owners all.
create function private.may_delete(p_org_id uuid, p_created_by uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p_org_id in (select private.my_owned_org_ids())
    or (p_org_id in (select private.my_writable_org_ids()) and auth.uid() in (p_created_by, private.user_of(p_created_by)))
$$;

create function private.current_user_id() returns uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(auth.uid() is not null, 'You are not signed in.', 'PT401');
  perform private.require(
    not private.is_refused_anonymous(), 'Anonymous sign-ins are not allowed here. Sign in with an account.', 'PT401',
    'anonymous_refused');
  perform private.require(
    not exists (select from public.api_keys where id = auth.uid()),
    'API keys cannot do this. Use a user token.', 'PT403', 'person_needed');
  return auth.uid();
end $$;

-- Raises 403 if the caller is a member but not an owner, and 404 if they are not a member.
create function private.check_owner(p_org_id uuid) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_found(p_org_id in (select private.my_org_ids()), 'organisation');
  perform private.require(
    p_org_id in (select private.my_owned_org_ids()), 'Only owners of the organisation can do this.', 'PT403',
    'owner_needed');
end $$;

-- Returns the organisation to act in, or null if the caller is not a member of `p_org`. Without `p_org` it is the
-- personal organisation, which is created on the first request.
create function private.resolve_organisation(p_org uuid default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_org uuid;
begin
  if p_org is not null then
    return (select org_id from public.memberships where user_id = v_user and org_id = p_org);
  end if;
  select id into v_org from public.organisations where personal_of = v_user;
  if v_org is not null then
    return v_org;
  end if;
  -- Plain Postgres: the first request creates the user. Supabase: Auth has created it.
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

-- Returns the personal organisation of the caller, creating it for a new user.
create function public.ensure_personal_organisation() returns uuid
language sql set search_path = pg_catalog, pg_temp
as $$ select private.resolve_organisation() $$;

-- A user creates at most 50 organisations, because each gets its own share of the queue.
create function public.create_organisation(p_name text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_personal uuid := private.resolve_organisation();
  v_org uuid;
begin
  perform private.require(
    char_length(p_name) between 1 and 200, 'The name of an organisation must have 1 to 200 characters.');
  -- Serialised, so that concurrent requests cannot exceed the limit.
  perform from public.organisations where id = v_personal for no key update;
  perform private.require(
    (select count(*) from public.organisations where created_by = v_user) < 50,
    'You have created 50 organisations, the maximum. Delete one first.', 'PT409', 'too_many');
  insert into public.organisations (name, created_by) values (p_name, v_user) returning id into v_org;
  insert into public.memberships (org_id, user_id, role, created_by) values (v_org, v_user, 'owner', v_user);
  return v_org;
end $$;

create policy "members see their organisations" on public.organisations
  for select to authenticated using (id in (select private.my_org_ids()));
create policy "owners change their organisations" on public.organisations
  for update to authenticated using (id in (select private.my_owned_org_ids()));

-- Changes of an organisation's settings: who, when, old and new. Visible to owners.
create table public.settings_journal (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid,
  created_at timestamptz not null default now(),
  setting text not null,
  old jsonb not null,
  new jsonb not null
);
create index settings_journal_org_id on public.settings_journal (org_id, created_at desc, id desc);
select private.protect_table('public.settings_journal');
grant select on public.settings_journal to authenticated;
create policy "owners read who changed the settings" on public.settings_journal
  for select to authenticated using (org_id in (select private.my_owned_org_ids()));

create function private.keep_settings_journal() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.settings_journal (org_id, created_by, setting, old, new)
  select new.id, auth.uid(), key, was.value, is_now.value
  from jsonb_each(to_jsonb(old)) as was join jsonb_each(to_jsonb(new)) as is_now using (key)
  where was.value <> is_now.value;
  return null;
end $$;

create trigger keep_settings_journal after update on public.organisations
  for each row execute function private.keep_settings_journal();

create policy "members see who belongs to their organisations" on public.memberships
  for select to authenticated using (org_id in (select private.my_org_ids()));
-- A user always stays the owner of their personal organisation.
create policy "owners change roles in their organisations" on public.memberships for update to authenticated
  using (
    org_id in (select private.my_owned_org_ids())
    and user_id is distinct from (select o.personal_of from public.organisations as o where o.id = org_id)
  );
create policy "members see their own keys, owners all" on public.api_keys for select to authenticated
  using (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_org_ids()) and created_by = (select private.user_of((select auth.uid()))))
  );

-- An organisation keeps at least one owner, unless it or the owner's account is deleted. Leaving cancels a member's runs.
create function private.handle_membership_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.current_user_id() where new.role = 'owner' and old.role <> 'owner' and auth.uid() is not null;
  -- First, because a run that ends locks its own row before the organisation's.
  if tg_op = 'DELETE' or (new.role = 'viewer' and old.role <> 'viewer') then
    perform private.cancel_runs_of(old.org_id, old.user_id, 'The user who started this run can no longer write in the organisation.');
  end if;
  if old.role = 'owner' and (tg_op = 'DELETE' or new.role <> 'owner') then
    perform from public.organisations where id = old.org_id for no key update;
    if found and exists (select from auth.users where id = old.user_id)
      and not exists (select from private.organisation_deletions where org_id = old.org_id)
      and not exists (
        select from public.memberships where org_id = old.org_id and user_id <> old.user_id and role = 'owner') then
      raise exception 'The organisation needs an owner. Make another member an owner first.'
        using errcode = 'PT409', detail = 'last_owner';
    end if;
  end if;
  if tg_op = 'UPDATE' then
    return new;
  end if;
  update public.api_keys set revoked_at = now(), revoked_by = auth.uid()
  where org_id = old.org_id and created_by = old.user_id and revoked_at is null;
  return old;
end $$;

create trigger keep_owner_when_roles_change before update of role on public.memberships
  for each row execute function private.handle_membership_change();
create trigger keep_owner_when_removed before delete on public.memberships
  for each row execute function private.handle_membership_change();

create function public.remove_member(p_org_id uuid, p_user_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.memberships
  where org_id = p_org_id and user_id = p_user_id
    and (
      org_id in (select private.my_owned_org_ids())
      or (org_id in (select private.my_org_ids()) and user_id = auth.uid()))
    and user_id is distinct from (select o.personal_of from public.organisations as o where o.id = org_id);
  perform private.check_found(found, 'member whom you may remove');
end $$;
