-- The baseline: supabase/schemas in their order, written by supabase/make_baseline.py. Change those, not this file.

-- Keys and policies lock tables of Supabase's that are in use: rather give up than let everybody wait.
set local lock_timeout = '10s';
set local statement_timeout = '60s';

-- roles.sql

-- Roles and schemas: the service's login role, the schemas, and the protection of every table.

-- The service logs in as fieldmark_app: not an owner, not a superuser, no BYPASSRLS. It may only switch to the roles of
-- PostgREST.
do $$
begin
  if not exists (select from pg_roles where rolname = 'fieldmark_app') then
    create role fieldmark_app login noinherit;
  end if;
end $$;
grant authenticated, anon to fieldmark_app;

-- `private`: functions that policies and the service call; not exposed by PostgREST. `queue`: procrastinate's tables.
create schema if not exists private;
create schema if not exists queue;
revoke all on schema private, queue from public;
grant usage on schema private to authenticated, fieldmark_app;
grant usage on schema queue to fieldmark_app;

-- Postgres looks for tables and types in pg_temp first, unless the search_path names it later. A temporary domain named
-- `text` would run its check inside our functions, as their owner. So every function here sets its search_path to
-- `pg_catalog, pg_temp`, and no login role may create temporary objects. Privileges on a database are not copied with
-- it, so `fieldmark migrate` revokes them each time.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
exception when insufficient_privilege then
  raise notice 'Only the owner of this database can revoke the privilege to create temporary tables.';
end $$;

-- Timeouts for locks and statements. PostgREST uses those of the role; the service sets its own.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['anon', 'authenticated'] loop
    if not exists (
      select from pg_roles where rolname = v_role and rolconfig @> array['lock_timeout=5s']
        and rolconfig @> array['idle_in_transaction_session_timeout=15s']
    ) then
      execute format('alter role %I set lock_timeout = ''5s''', v_role);
      execute format('alter role %I set idle_in_transaction_session_timeout = ''15s''', v_role);
    end if;
    if not exists (select from pg_roles where rolname = v_role and rolconfig::text like '%statement_timeout=%') then
      execute format('alter role %I set statement_timeout = ''8s''', v_role);
    end if;
  end loop;
  notify pgrst, 'reload config';
exception when insufficient_privilege then
  raise notice 'Only an administrator of anon and authenticated can set their lock timeouts.';
end $$;

-- Returns a new id, ordered by time to the millisecond (UUID version 7), so that new rows are adjacent in every index.
create function private.new_id() returns uuid language sql volatile set search_path = pg_catalog, pg_temp as $$
  select encode(
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
      || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) from 7), 4, 1), 5, 1),
    'hex')::uuid
$$;

-- Whether this is a connection of the service, not of PostgREST: `set role` does not change session_user.
create function private.is_service() returns boolean language sql stable set search_path = pg_catalog, pg_temp
as $$ select pg_has_role(session_user, 'fieldmark_app', 'member') $$;

-- Whether this transaction is an agent's call. Otherwise a user writes.
create function private.is_agent() returns boolean language sql stable set search_path = pg_catalog, pg_temp
as $$ select nullif(current_setting('fieldmark.call_id', true), '') is not null and private.is_service() $$;

-- Raises an error unless the condition is true: a message, the HTTP status in PostgREST's form, and a code for programs.
create function private.require(
  p_holds boolean, p_refusal text, p_status text default 'PT422', p_code text default null
) returns void language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if p_holds then
    return;
  elsif p_code is null then
    raise exception using message = p_refusal, errcode = p_status;
  end if;
  raise exception using message = p_refusal, errcode = p_status, detail = p_code;
end $$;

create function private.check_found(p_found boolean, p_what text) returns void
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select private.require(p_found, format('There is no such %s.', p_what), 'PT404') $$;

-- The run and the call of this transaction; null if a user writes.
create function private.this_run() returns uuid language sql stable set search_path = pg_catalog, pg_temp
as $$ select case when private.is_agent() then nullif(current_setting('fieldmark.run_id', true), '')::uuid end $$;

create function private.this_call() returns text language sql stable set search_path = pg_catalog, pg_temp
as $$ select case when private.is_agent() then nullif(current_setting('fieldmark.call_id', true), '') end $$;

-- Protects a tenant table: row security also applies to its owner, and all privileges on it and its sequences, which
-- Supabase grants to every role, are revoked. The owner gets a policy, because security definer functions act as the
-- owner. `p_members_read`: the members of an organisation, viewers included, read its rows. `p_service` (insert,
-- update): the service may do these for members who can write.
create function private.protect_table(
  p_table regclass, p_members_read boolean default false, p_service text[] default '{}'
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_sequence regclass;
  v_verb text;
begin
  execute format('alter table %s enable row level security', p_table);
  execute format('alter table %s force row level security', p_table);
  execute format('revoke all on table %s from public, anon, authenticated', p_table);
  for v_sequence in
    select d.objid::regclass from pg_depend as d join pg_class as c on c.oid = d.objid and c.relkind = 'S'
    where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = p_table
  loop
    execute format('revoke all on sequence %s from public, anon, authenticated', v_sequence);
  end loop;
  if not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    execute format(
      'create policy "definer functions act as the owner" on %s to %I using (true) with check (true)',
      p_table, current_user);
  end if;
  if p_members_read then
    execute format('grant select on %s to authenticated', p_table);
    execute format(
      'create policy "members read the rows of their organisations" on %s for select to authenticated '
      'using (org_id in (select private.my_org_ids()))', p_table);
  end if;
  foreach v_verb in array p_service loop
    execute format(
      'create policy "the service %1$ss for members who write" on %2$s for %1$s to authenticated '
      '%3$s (org_id in (select private.my_writable_org_ids()) and (select private.is_service()))',
      v_verb, p_table, case v_verb when 'insert' then 'with check' else 'using' end);
  end loop;
end $$;

-- organisations.sql

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

-- api_keys.sql

-- API keys: shown once, looked up by hash. The table is in organisations.sql because policies read it.

-- Creates a key and returns {"id", "key"}. Only users create keys. An organisation has at most 200 active keys.
create function public.create_api_key(
  p_org_id uuid, p_name text, p_scopes text[], p_expires_at timestamptz default null
) returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_scopes text[] := array(select distinct scope from unnest(p_scopes) as scope order by scope);
  v_unknown text;
  v_prefix text := 'fm_' || left(replace(gen_random_uuid()::text, '-', ''), 8);
  -- 256 bits of three random numbers of 122 bits each.
  v_key text := v_prefix || '_' || encode(
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  v_id uuid;
begin
  perform private.current_user_id();
  -- Locks the organisation, so that a member who is being removed cannot create a key meanwhile.
  perform from public.organisations
  where id = p_org_id and id in (select private.my_org_ids()) for no key update;
  perform private.check_found(p_org_id in (select private.my_org_ids()), 'organisation');
  perform private.require(
    p_org_id in (select private.my_writable_org_ids()), 'Viewers cannot create API keys. Ask an owner to change your role.', 'PT403', 'read_only');
  perform private.require(
    char_length(p_name) between 1 and 200, 'The name of an API key must have 1 to 200 characters.');
  perform private.require(cardinality(v_scopes) > 0, 'An API key needs at least one scope.');
  select scope into v_unknown from unnest(v_scopes) as scope
  where scope is null or scope not in (
    'documents:read', 'documents:write', 'documents:add', 'extractions:read', 'extractions:write', 'schemas:read', 'schemas:write',
    'runs:read', 'runs:write', 'runs:approve', 'usage:read', 'members:read', 'members:write', 'keys:read', 'keys:write',
    'changes:read', 'webhooks:write')
  limit 1;
  perform private.require(not found, format('Unknown scope: %s.', coalesce(left(v_unknown, 50), 'null')));
  perform private.require(coalesce(p_expires_at > now(), true), 'The expiry date must be in the future.');
  perform private.require(
    (select count(*) from public.api_keys
      where org_id = p_org_id and revoked_at is null and coalesce(expires_at > now(), true)) < 200,
    'The organisation has 200 API keys, the maximum. Revoke one first.', 'PT409', 'too_many');
  insert into public.api_keys (org_id, created_by, name, prefix, hash, scopes, expires_at)
  values (p_org_id, auth.uid(), p_name, v_prefix, sha256(convert_to(v_key, 'UTF8')), v_scopes, p_expires_at)
  returning id into v_id;
  return jsonb_build_object('id', v_id, 'key', v_key);
end $$;

-- Revokes a key and cancels its open runs. Allowed for its creator and for owners. Returns the time of revocation.
create function public.revoke_api_key(p_key_id uuid) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.api_keys
  where id = p_key_id and (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_writable_org_ids()) and created_by = private.user_of(auth.uid())));
  perform private.check_found(found, 'key that you may revoke');
  perform private.cancel_runs_of(k.org_id, k.id, 'The API key that started this run was revoked.') from public.api_keys as k where k.id = p_key_id;
  update public.api_keys set revoked_at = now(), revoked_by = auth.uid()
  where id = p_key_id and revoked_at is null;
  return (select revoked_at from public.api_keys where id = p_key_id);
end $$;

-- Returns the key with this hash. `refusal`: key_revoked (also if its creator left) or key_expired.
create function private.use_api_key(p_hash bytea)
returns table (
  id uuid, org_id uuid, name text, prefix text, scopes text[], role text, expires_at timestamptz, refusal text,
  needs_recording boolean) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select k.id, k.org_id, k.name, k.prefix, k.scopes, a.role, k.expires_at,
    case when a.role is null then 'key_revoked' when k.expires_at <= now() then 'key_expired' end,
    coalesce(k.last_used_at < now() - interval '1 minute', true)
  from public.api_keys as k
  left join private.actors as a on a.org_id = k.org_id and a.user_id = k.id and a.is_key
  where k.hash = p_hash
$$;

create function private.record_api_key_use(p_key_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.api_keys set last_used_at = now()
  where id = p_key_id and coalesce(last_used_at < now() - interval '1 minute', true)
$$;

-- invitations.sql

-- Invitations: a link whose recipient becomes a member by accepting it.

create table public.invitations (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- Only a user whose token contains this address may accept it. Null: anyone with the link, once.
  email text check (char_length(email) between 3 and 320),
  role text not null check (role in ('owner', 'member', 'viewer')),
  -- SHA-256 of the token. The token itself is not stored.
  hash bytea not null unique check (octet_length(hash) = 32),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  accepted_by uuid,
  revoked_at timestamptz,
  revoked_by uuid
);
create index invitations_org_id on public.invitations (org_id, created_at desc, id desc);
select private.protect_table('public.invitations');
grant select (
  id, org_id, created_by, created_at, email, role, expires_at, accepted_at, accepted_by, revoked_at, revoked_by
) on public.invitations to authenticated;

create policy "owners see the invitations of their organisations" on public.invitations
  for select to authenticated using (org_id in (select private.my_owned_org_ids()));

-- Creates an invitation and returns {"id", "token"}. An organisation has at most 1,000 pending invitations.
create function public.invite(p_org_id uuid, p_role text, p_email text default null, p_days integer default 7)
returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_token text := 'fmi_' || encode(
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  v_id uuid;
begin
  perform private.check_owner(p_org_id);
  perform private.current_user_id() where p_role = 'owner';  -- a key creates no owner
  perform private.require(p_role in ('owner', 'member', 'viewer'), '`role` must be owner, member or viewer.');
  perform private.require(
    p_email is null or p_email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(p_email) <= 320,
    'This is not an email address.');
  perform private.require(p_days between 1 and 90, 'An invitation is valid for 1 to 90 days.');
  perform from public.organisations where id = p_org_id for no key update;
  perform private.require(
    (select count(*) from public.invitations
      where org_id = p_org_id and accepted_at is null and revoked_at is null and expires_at > now()) < 1000,
    '1,000 invitations wait already: revoke some.', 'PT409', 'too_many');
  insert into public.invitations (org_id, email, role, hash, expires_at)
  values (p_org_id, p_email, p_role, sha256(convert_to(v_token, 'UTF8')), now() + make_interval(days => p_days))
  returning id into v_id;
  return jsonb_build_object('id', v_id, 'token', v_token);
end $$;

create function public.revoke_invitation(p_invitation_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.invitations;
begin
  select * into v_row from public.invitations
  where id = p_invitation_id and org_id in (select private.my_owned_org_ids()) for no key update;
  perform private.check_found(found, 'invitation');
  perform private.require(
    v_row.accepted_at is null, 'The invitation was already accepted. Remove the member instead.', 'PT409', 'invitation_used');
  update public.invitations set revoked_at = now(), revoked_by = auth.uid()
  where id = v_row.id and revoked_at is null;
end $$;

-- Returns the invitation with this token, locked, if this user may accept it now.
create function private.usable_invitation(p_token text) returns public.invitations
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_row public.invitations;
  v_account jsonb;
begin
  select * into v_row from public.invitations where hash = sha256(convert_to(p_token, 'UTF8')) for no key update;
  perform private.require(found, 'Invitation not found. Open the full link that you were sent.', 'PT404');
  perform private.require(
    v_row.accepted_at is null, 'This invitation was already used. Ask for a new one.', 'PT409', 'invitation_used');
  perform private.require(
    v_row.revoked_at is null, 'This invitation was revoked. Ask for a new one.', 'PT410', 'invitation_revoked');
  perform private.require(
    v_row.expires_at > now(), 'This invitation has expired. Ask for a new one.', 'PT410', 'invitation_expired');
  if v_row.email is not null then
    select to_jsonb(u) into v_account from auth.users as u where u.id = v_user;
    -- (Supabase Auth records when an address was confirmed. Plain Postgres has no such column.)
    -- (Only A to Z are folded: Unicode lower() turns the Kelvin sign into `k`.)
    if lower(auth.jwt() ->> 'email' collate "C") is distinct from lower(v_row.email collate "C")
      or (v_account ? 'email_confirmed_at' and v_account ->> 'email_confirmed_at' is null) then
      raise exception 'This invitation is for another email address. Sign in with the address it was sent to.'
        using errcode = 'PT403', detail = 'invitation_for_another';
    end if;
  end if;
  -- An owner who is deleting the organisation holds this row.
  perform from public.organisations where id = v_row.org_id for no key update;
  perform private.require(
    not exists (select from private.organisation_deletions where org_id = v_row.org_id),
    'This organisation was deleted.', 'PT410', 'invitation_revoked');
  -- Otherwise a removed owner could return with a link that they kept.
  perform private.require(
    private.role_of(v_row.org_id, v_row.created_by) = 'owner',
    'The sender of this invitation is no longer an owner. Ask for a new one.', 'PT410', 'invitation_revoked');
  return v_row;
end $$;

-- What an invitation offers to the user who may accept it: {"organisation", "role", "expires_at"}.
create function public.read_invitation(p_token text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.invitations := private.usable_invitation(p_token);
begin
  perform private.current_user_id();
  return jsonb_build_object(
    'organisation', (select name from public.organisations where id = v_row.org_id), 'role', v_row.role,
    'expires_at', v_row.expires_at);
end $$;

-- Accepts an invitation once and returns {"org_id", "role"}. Concurrent callers wait for each other.
create function public.accept_invitation(p_token text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_row public.invitations := private.usable_invitation(p_token);
begin
  perform private.resolve_organisation();
  insert into public.memberships (org_id, user_id, role, created_by)
  values (v_row.org_id, v_user, v_row.role, v_row.created_by) on conflict do nothing;
  perform private.require(found, 'You are already a member of this organisation.', 'PT409', 'already_member');
  update public.invitations set accepted_at = now(), accepted_by = v_user where id = v_row.id;
  return jsonb_build_object('org_id', v_row.org_id, 'role', v_row.role);
end $$;

create function private.address_of(p_org_id uuid, p_user_id uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select u.email from public.memberships as m join auth.users as u on u.id = m.user_id
  where m.org_id = p_org_id and m.user_id = p_user_id and p_org_id in (select private.my_org_ids())
$$;

-- documents.sql

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

-- files_to_delete.sql

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

-- storage.sql

-- Originals on Supabase Storage: the first folder of an object's name is its organisation.

insert into storage.buckets (id, name, public) values ('documents', 'documents', false) on conflict (id) do nothing;

create policy "members read their organisation's originals" on storage.objects for select to authenticated
  using (bucket_id = 'documents' and (storage.foldername(name))[1] in (select id::text from private.my_org_ids() as id));
create policy "members upload originals for their organisation" on storage.objects for insert to authenticated
  with check (
    bucket_id = 'documents' and (storage.foldername(name))[1] in (select id::text from private.my_writable_org_ids() as id)
  );

-- agents.sql

-- Agents and their tasks. `fieldmark migrate` writes the rows from the code (AgentSpec).

create table private.agents (
  name text primary key check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Default approval mode of the agent's runs.
  approval text not null check (approval in ('auto', 'ask'))
);

create table private.agent_tasks (
  agent text not null references private.agents (name) on delete cascade,
  task text not null check (task ~ '^[a-z][a-z0-9_]{0,62}$'),
  -- Columns that a run of this task must set, and columns that it may also set.
  needs text[] not null check (needs <@ array['document_id', 'extraction_id', 'thread_id', 'stack_id']),
  may_have text[] not null default '{}' check (may_have <@ array['document_id', 'extraction_id', 'thread_id', 'stack_id']),
  -- Keys that the input must have, and all that it may have (null: any).
  input_needs text[] not null default '{}',
  input_may_have text[],
  -- Whether the input is a user's own message, which lets the agent overwrite that user's locks.
  is_message boolean not null default false,
  approval text check (approval in ('auto', 'ask')),
  -- Whether the task starts automatically after a document is read (auto_creations.sql).
  when_read boolean not null default false,
  primary key (agent, task)
);
grant select on private.agents, private.agent_tasks to authenticated;

-- schemas.sql

-- Schemas: JSON Schemas by name, with all versions. A version never changes.

-- One line of visible characters. The list is that of domain/invisible.py.
create function private.is_name(p_text text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return p_text = btrim(p_text) and char_length(p_text) between 1 and 200
  and p_text !~ ('[[:cntrl:]\u0080-\u009f\u2028\u2029\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f'
    '\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
    '\U000e0000-\U000e0fff]');

create table public.schemas (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  -- Hidden: not listed any more, but still referenced by what was made with it.
  deleted_at timestamptz,
  -- The root run that created it; null if a user did.
  run_id uuid,
  -- Fields that should have a value in each extraction, besides those that the schema requires. They are in
  -- `x-fieldmark.required` of the latest version, or nearly all extractions have one. Maintained by the database.
  required_fields text[] not null default '{}',
  -- Extractions were checked since `required_fields` was counted.
  recount boolean not null default false,
  -- For each of the 50 newest older versions, by its id: how the latest one differs, by private.compare_schemas. In all from
  -- an older version that is not listed. Maintained by update_schema.
  differences jsonb not null default '{}',
  -- Instead of the organisation's.
  max_error numeric check (max_error between 0.001 and 1),
  -- What the looks of people at its values showed: see private.review_policy. Computed by the service.
  review_policy jsonb,
  unique (id, org_id)
);
create unique index schemas_name on public.schemas (org_id, lower(name)) where deleted_at is null;
create index schemas_org_id on public.schemas (org_id, created_at desc, id desc);
create index schemas_recount on public.schemas (id) where recount;
create index schemas_run_id on public.schemas (run_id) where run_id is not null;
select private.protect_table('public.schemas', p_members_read => true);

create table public.schema_versions (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  schema_id uuid not null,
  number integer not null check (number > 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null,
  -- A JSON Schema (Draft 2020-12). Validated by the service, not by the database. `json` keeps the order of its fields.
  schema json not null check (json_typeof(schema) = 'object' and pg_column_size(schema) <= 262144),
  run_id uuid,
  call_id text,
  unique (id, org_id),
  unique (schema_id, number, org_id),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade
);
create index schema_versions_org_id on public.schema_versions (org_id);
select private.protect_table('public.schema_versions', p_members_read => true);
alter table public.documents add foreign key (extract_revid, org_id) references public.schema_versions (id, org_id)
  on delete set null (extract_revid);

-- The root run of this transaction's call; null if a user writes.
create function private.this_root_run() returns uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select root_run_id from public.runs where id = private.this_run());
end $$;

create function private.check_org_writable(p_org_id uuid, p_what text) returns void
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select private.check_found(p_org_id in (select private.my_writable_org_ids()), p_what) $$;

create function private.check_name(p_name text) returns void
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select private.require(private.is_name(p_name), 'A name must be one line of 1 to 200 visible characters.') $$;

-- At most 10,000. Counted without a lock: concurrent requests may create a few more.
create function private.check_item_limit(p_count bigint, p_refusal text) returns void
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select private.require(p_count < 10000, p_refusal, 'PT409', 'too_many') $$;

create function private.check_schema_json(p_schema json) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(json_typeof(p_schema) = 'object', 'A schema must be a JSON object.');
  perform private.check_json(p_schema::jsonb, 'A schema');
  perform private.require(pg_column_size(p_schema) <= 262144, 'A schema may not exceed 256 kB.');
end $$;

-- The text of a JSON value without white space. (jsonb treats two orders of the same fields as equal.)
create function private.compact(p_json json) returns text
language sql immutable set search_path = pg_catalog, pg_temp
return regexp_replace(p_json::text, '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g');

-- Whether two values of a schema differ in more than titles, defaults and examples. A dropped property does not count.
create function private.differ(p_old jsonb, p_new jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when p_old = p_new then false
    when jsonb_typeof(p_old) = 'object' and jsonb_typeof(p_new) = 'object' then exists (
      select from jsonb_each(p_old) as o full join jsonb_each(p_new) as n using (key)
      where case
        -- A property or a definition may have such a name: its value is a schema.
        when key in ('title', 'default', 'examples', '$comment')
          and jsonb_typeof(coalesce(n.value, o.value)) not in ('object', 'boolean') then false
        when key = 'properties' and jsonb_typeof(coalesce(o.value, n.value)) = 'object'
          and jsonb_typeof(coalesce(n.value, o.value)) = 'object' then exists (
          select from jsonb_each(n.value) as f where private.differ(o.value -> f.key, f.value))
        when key = 'required' and jsonb_typeof(coalesce(o.value, '[]')) = 'array'
          and jsonb_typeof(p_old -> 'properties') = 'object' and jsonb_typeof(p_new -> 'properties') = 'object' then
          coalesce(o.value, '[]') - array(
            select jsonb_object_keys(p_old -> 'properties') except select jsonb_object_keys(p_new -> 'properties')
          ) <> coalesce(n.value, '[]')
        else private.differ(o.value, n.value) end)
    when jsonb_typeof(p_old) = 'array' and jsonb_typeof(p_new) = 'array'
      and jsonb_array_length(p_old) = jsonb_array_length(p_new) then exists (
      select from jsonb_array_elements(p_new) with ordinality as one (value, n)
      where private.differ(p_old -> (n::integer - 1), one.value))
    else true end
$$;

-- How a new version of a schema differs from an old one: `added` and `changed` top-level fields, `everything` if a keyword at
-- the root differs that may concern any field, `rules` if the rules do. {}: it does not. The one rule of what is stale and
-- read again: rows, columns and extractions.
create function private.compare_schemas(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp set jit = off as $$
  with recursive parts as (
    select key, p_old -> 'properties' -> key as old, value as new,
      coalesce(p_old -> 'required' ? key, false) <> coalesce(p_new -> 'required' ? key, false) as differs
    from jsonb_each(case jsonb_typeof(p_new -> 'properties') when 'object' then p_new -> 'properties' end)
    union all
    select null, rest[1], rest[2], false from (
      select array_agg(
        schema - '{type,properties,required,description,$schema,$id,$defs,definitions,x-fieldmark}'::text[]
          - array(select key from jsonb_each(schema) where key in ('additionalProperties', 'unevaluatedProperties')
            and jsonb_typeof(value) = 'boolean')
          || jsonb_build_object('grounded', schema -> 'x-fieldmark' -> 'grounded') order by n) as rest
      from unnest(array[p_old, p_new]) with ordinality as version (schema, n)) as root
  ), keywords as (
    select unnest(array['$.**."$ref"', '$.**."$dynamicRef"']::jsonpath[]) as path where p_old <> p_new
  ), targets as materialized (
    -- (The whole schema, for a reference that is not the path of a definition.)
    select ref, coalesce(p_old #> at, p_old) as old, coalesce(p_new #> at, p_new) as new
    from (
      select distinct one #>> '{}' as ref from keywords cross join lateral jsonb_path_query(p_new, path) as one) as refs
    cross join lateral (select string_to_array(nullif(ltrim(ref, '#/'), ''), '/') as at) as found
  ), uses as materialized (
    select ref, one #>> '{}' as used
    from targets cross join keywords cross join lateral jsonb_path_query(new, path) as one
  ), changed_targets as (
    select ref from targets where private.differ(old, new)
    union
    select u.ref from changed_targets as c join uses as u on u.used = c.ref
  ), compared as (
    select key, key is not null and old is null as is_added, differs or private.differ(old, new) or exists (
      select from keywords cross join lateral jsonb_path_query(new, path) as one
      join changed_targets as c on c.ref = one #>> '{}') as is_changed
    from parts)
  select jsonb_strip_nulls(jsonb_build_object(
    'added', jsonb_agg(key) filter (where is_added),
    'changed', jsonb_agg(key) filter (where key is not null and not is_added and is_changed),
    'everything', nullif(bool_or(key is null and is_changed), false),
    'rules', nullif(coalesce(p_old #> '{x-fieldmark,rules}', '[]') <> coalesce(p_new #> '{x-fieldmark,rules}', '[]'), false)))
  from compared
$$;

-- Returns the id of the first version, the `schema_revid`. Security definer: versions are only ever added.
create function public.create_schema(p_org_id uuid, p_name text, p_schema json) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema_id uuid;
  v_revid uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'), private.check_name(p_name),
    private.check_schema_json(p_schema);
  perform private.check_item_limit(
    (select count(*) from public.schemas where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 schemas, the maximum. Delete one first.');
  insert into public.schemas (org_id, name, run_id) values (p_org_id, p_name, private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_schema_id;
  perform private.require(v_schema_id is not null, 'A schema with this name already exists.', 'PT409', 'name_taken');
  insert into public.schema_versions (org_id, schema_id, number, name, schema, run_id, call_id)
  values (p_org_id, v_schema_id, 1, p_name, p_schema, private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Adds a version if anything changes and returns the latest version's id. `p_revid`: the version that must be the latest.
create function public.update_schema(
  p_schema_id uuid, p_name text default null, p_schema json default null, p_revid uuid default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_head public.schemas;
  v_latest public.schema_versions;
  v_revid uuid;
begin
  select * into v_head from public.schemas where id = p_schema_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_head.org_id, 'schema');
  select * into v_latest from public.schema_versions where schema_id = p_schema_id order by number desc limit 1;
  if p_revid is not null and p_revid <> v_latest.id then
    raise exception 'The schema has changed. Load the latest version first.' using errcode = 'PT409', detail = 'version_changed';
  end if;
  p_name := coalesce(p_name, v_latest.name);
  p_schema := coalesce(p_schema, v_latest.schema);
  perform private.check_name(p_name), private.check_schema_json(p_schema);
  if p_name = v_latest.name and private.compact(p_schema) = private.compact(v_latest.schema) then
    return v_latest.id;
  end if;
  perform private.check_item_limit(v_latest.number, 'The schema has 10,000 versions, the maximum. Create a new schema.');
  begin
    update public.schemas set name = p_name where id = p_schema_id;
  exception when unique_violation then
    raise exception 'A schema with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
  insert into public.schema_versions (org_id, schema_id, number, name, schema, run_id, call_id)
  values (
    v_head.org_id, p_schema_id, v_latest.number + 1, p_name, p_schema, private.this_run(), private.this_call())
  returning id into v_revid;
  update public.schemas set differences = (
    select jsonb_object_agg(id, private.compare_schemas(schema::jsonb, p_schema::jsonb))
    from (select id, schema from public.schema_versions where schema_id = p_schema_id and id <> v_revid
      order by number desc limit 50) as older)
  where id = p_schema_id;
  perform private.update_required_fields(p_schema_id);
  return v_revid;
end $$;

-- Hides a schema and returns how many prompts, extractions and stacks refer to it.
create function public.delete_schema(p_schema_id uuid) returns table (prompts bigint, extractions bigint, stacks bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.schemas set deleted_at = now()
  where id = p_schema_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Schema not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_schema(p_schema_id);
end $$;

-- threads.sql

-- Threads: conversations of a user with an agent. They outlive their runs.

create table public.threads (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation() references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- When its last run started.
  updated_at timestamptz not null default now(),
  agent text not null references private.agents (name),
  document_id uuid,
  title text constraint has_a_name check (private.is_name(title)),
  shared boolean not null default false,
  -- The state that runs keep between turns.
  working_state jsonb not null default '{}'
    check (jsonb_typeof(working_state) = 'object' and pg_column_size(working_state) <= 262144),
  unique (id, org_id),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
create index threads_created_by on public.threads (org_id, created_by, created_at desc, id desc);
create index threads_shared on public.threads (org_id, created_at desc, id desc) where shared;
create index threads_document_id on public.threads (document_id);
select private.protect_table('public.threads');
grant select, insert (org_id, agent, document_id, title), update (title, shared) on public.threads to authenticated;

create policy "members read their own threads and shared ones" on public.threads for select to authenticated
  using (org_id in (select private.my_org_ids()) and (shared or created_by = (select auth.uid())));
create policy "members begin threads of their own" on public.threads for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()));
create policy "members change their own threads" on public.threads for update to authenticated
  using (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()));

-- Merges into the state that a thread's runs keep between turns.
-- Security definer: only runs write this state, also on behalf of another member who decides in a shared thread.
create function private.save_thread_state(p_thread_id uuid, p_state jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.threads set working_state = working_state || p_state
  where id = p_thread_id and private.is_service() and org_id in (select private.my_writable_org_ids())
    and (shared or created_by = auth.uid());
  perform private.check_found(found, 'thread');
end $$;

create function public.delete_thread(p_thread_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.threads
  where id = p_thread_id and org_id in (select private.my_writable_org_ids()) and created_by = auth.uid();
  perform private.check_found(found, 'thread');
end $$;

-- tags.sql

-- Tags: labels for an organisation's documents and prompts.

create table public.tags (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  color text not null default '#808080' check (color ~ '^#[0-9a-f]{6}$'),
  deleted_at timestamptz,
  run_id uuid,
  unique (id, org_id)
);
create unique index tags_name on public.tags (org_id, lower(name)) where deleted_at is null;
create index tags_org_id on public.tags (org_id, created_at desc, id desc);
create index tags_run_id on public.tags (run_id) where run_id is not null;
select private.protect_table('public.tags', p_members_read => true);

create table public.document_tags (
  org_id uuid not null,
  document_id uuid not null,
  tag_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  run_id uuid,
  -- Copied from the document, to list a tag's documents in this order.
  document_created_at timestamptz not null,
  primary key (document_id, tag_id),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (tag_id, org_id) references public.tags (id, org_id) on delete cascade
);
create index document_tags_tag_id on public.document_tags (tag_id, document_created_at desc, document_id desc);
create index document_tags_org_id on public.document_tags (org_id);
create index document_tags_run_id on public.document_tags (run_id) where run_id is not null;
select private.protect_table('public.document_tags', p_members_read => true);

-- Creates a tag and returns its id. The color is `#` and six hexadecimal digits.
create function public.create_tag(p_org_id uuid, p_name text, p_color text default '#808080') returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tag_id uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'), private.check_name(p_name);
  perform private.require(lower(p_color) ~ '^#[0-9a-f]{6}$', 'A color must look like #1e90ff.');
  perform private.check_item_limit(
    (select count(*) from public.tags where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 tags, the maximum. Delete one first.');
  insert into public.tags (org_id, name, color, run_id)
  values (p_org_id, p_name, lower(p_color), private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_tag_id;
  perform private.require(v_tag_id is not null, 'A tag with this name already exists.', 'PT409', 'name_taken');
  return v_tag_id;
end $$;

create function public.update_tag(p_tag_id uuid, p_name text default null, p_color text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tag public.tags;
begin
  select * into v_tag from public.tags where id = p_tag_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_tag.org_id, 'tag');
  perform private.check_name(coalesce(p_name, v_tag.name));
  perform private.require(lower(coalesce(p_color, v_tag.color)) ~ '^#[0-9a-f]{6}$', 'A color must look like #1e90ff.');
  begin
    update public.tags set name = coalesce(p_name, name), color = lower(coalesce(p_color, color)),
      -- Once a user changes the tag, it no longer belongs to the run.
      run_id = case when run_id = private.this_root_run() then run_id end
    where id = p_tag_id;
  exception when unique_violation then
    raise exception 'A tag with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
end $$;

-- Hides a tag and returns how many documents and prompts use it.
create function public.delete_tag(p_tag_id uuid) returns table (documents bigint, prompts bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.tags set deleted_at = now()
  where id = p_tag_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Tag not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_tag(p_tag_id);
end $$;

create function public.tag_document(p_document_id uuid, p_add uuid[] default '{}', p_remove uuid[] default '{}')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
  v_created_at timestamptz;
begin
  -- Serialised, so that the tags are counted correctly.
  select org_id, created_at into v_org, v_created_at from public.documents where id = p_document_id for no key update;
  perform private.check_org_writable(v_org, 'document');
  perform private.require(
    greatest(cardinality(p_add), cardinality(p_remove)) <= 100, 'One request can add or remove at most 100 tags.');
  perform from unnest(p_add) as given
  where not exists (select from public.tags where id = given and org_id = v_org and deleted_at is null);
  perform private.require(not found, 'Tag not found.', 'PT404');
  delete from public.document_tags where document_id = p_document_id and tag_id = any (p_remove);
  insert into public.document_tags (org_id, document_id, tag_id, run_id, document_created_at)
  select v_org, p_document_id, given, private.this_root_run(), v_created_at from unnest(p_add) as given
  -- Once a user adds the tag too, it no longer belongs to the run.
  on conflict (document_id, tag_id) do update set run_id = null
  where excluded.run_id is null and document_tags.run_id is not null;
  perform private.require(
    (select count(*) from public.document_tags where document_id = p_document_id) <= 100, 'A document has at most 100 tags.');
end $$;

create function public.rename_document(p_document_id uuid, p_filename text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
begin
  select org_id into v_org from public.documents where id = p_document_id for no key update;
  perform private.check_org_writable(v_org, 'document'), private.check_name(p_filename);
  update public.documents set filename = p_filename where id = p_document_id;
end $$;

-- prompts.sql

-- Prompts: instructions for extractions, optionally with a schema. Every version is stored.

create table public.prompts (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  deleted_at timestamptz,
  run_id uuid,
  unique (id, org_id)
);
create unique index prompts_name on public.prompts (org_id, lower(name)) where deleted_at is null;
create index prompts_org_id on public.prompts (org_id, created_at desc, id desc);
create index prompts_run_id on public.prompts (run_id) where run_id is not null;
select private.protect_table('public.prompts', p_members_read => true);

create table public.prompt_versions (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  prompt_id uuid not null,
  number integer not null check (number > 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null,
  content text not null check (char_length(content) between 1 and 20000),
  schema_id uuid,
  -- The number of the schema's version that the prompt uses; null: the latest when the prompt is used.
  schema_version integer,
  -- The model; null for the service's default.
  model text check (char_length(model) between 1 and 200),
  -- Tags of the documents it applies to. (Tags are hidden, not deleted, so these references stay valid.)
  tag_ids uuid[] not null default '{}' check (cardinality(tag_ids) <= 50),
  run_id uuid,
  call_id text,
  unique (id, org_id),
  unique (prompt_id, number),
  foreign key (prompt_id, org_id) references public.prompts (id, org_id) on delete cascade,
  check (schema_version is null or schema_id is not null),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade,
  foreign key (schema_id, schema_version, org_id) references public.schema_versions (schema_id, number, org_id)
    on delete cascade
);
create index prompt_versions_org_id on public.prompt_versions (org_id);
create index prompt_versions_schema_id on public.prompt_versions (schema_id, schema_version);
select private.protect_table('public.prompt_versions', p_members_read => true);

-- The version of a schema that a prompt uses now: the pinned one, else the latest.
create function private.schema_revid_of(p_schema_id uuid, p_number integer) returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select id from public.schema_versions where schema_id = p_schema_id
    and number = coalesce(p_number, (select max(number) from public.schema_versions where schema_id = p_schema_id))
$$;

create function private.check_prompt(
  p_org_id uuid, p_name text, p_content text, p_schema_id uuid, p_model text, p_tag_ids uuid[]
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_name(p_name);
  perform private.require(
    char_length(p_content) between 1 and 20000, 'The content of a prompt must have 1 to 20,000 characters.');
  perform private.require(
    coalesce(char_length(p_model), 1) between 1 and 200, 'The name of a model must have 1 to 200 characters.');
  perform private.require(coalesce(cardinality(p_tag_ids), 0) <= 50, 'A prompt has at most 50 tags.');
  -- A concurrent delete waits for this lock and then sees the prompt.
  perform from public.schemas where id = p_schema_id and org_id = p_org_id and deleted_at is null for share;
  perform private.require(p_schema_id is null or found, 'Schema not found.', 'PT404');
  perform from unnest(p_tag_ids) as given
  where not exists (select from public.tags where id = given and org_id = p_org_id and deleted_at is null);
  perform private.require(not found, 'Tag not found.', 'PT404');
end $$;

create function private.check_pin(p_schema_id uuid, p_number integer) returns void
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.require(
    p_number is null or private.schema_revid_of(p_schema_id, p_number) is not null,
    format('The schema has no version %s. Give the number of one of its versions, or none for the latest.', p_number),
    'PT404')
$$;

-- Returns the id of the first version, the `prompt_revid`. With `p_schema_version` it keeps to that version of the schema.
create function public.create_prompt(
  p_org_id uuid, p_name text, p_content text, p_schema_id uuid default null, p_model text default null,
  p_tag_ids uuid[] default '{}', p_schema_version integer default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_prompt_id uuid;
  v_revid uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'),
    private.check_prompt(p_org_id, p_name, p_content, p_schema_id, p_model, p_tag_ids),
    private.check_pin(p_schema_id, p_schema_version);
  perform private.check_item_limit(
    (select count(*) from public.prompts where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 prompts, the maximum. Delete one first.');
  insert into public.prompts (org_id, name, run_id) values (p_org_id, p_name, private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_prompt_id;
  perform private.require(v_prompt_id is not null, 'A prompt with this name already exists.', 'PT409', 'name_taken');
  insert into public.prompt_versions
    (org_id, prompt_id, number, name, content, schema_id, schema_version, model, tag_ids, run_id, call_id)
  values (p_org_id, v_prompt_id, 1, p_name, p_content, p_schema_id, p_schema_version, p_model,
    coalesce(p_tag_ids, '{}'), private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Adds a version if anything changes and returns the latest version's id. `p_revid`: the version that must be the latest.
create function public.update_prompt(
  p_prompt_id uuid, p_name text, p_content text, p_schema_id uuid, p_model text, p_tag_ids uuid[],
  p_revid uuid default null, p_schema_version integer default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_head public.prompts;
  v_latest public.prompt_versions;
  v_revid uuid;
begin
  select * into v_head from public.prompts where id = p_prompt_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_head.org_id, 'prompt');
  select * into v_latest from public.prompt_versions where prompt_id = p_prompt_id order by number desc limit 1;
  if p_revid is not null and p_revid <> v_latest.id then
    raise exception 'The prompt has changed. Load the latest version first.' using errcode = 'PT409', detail = 'version_changed';
  end if;
  if (p_name, p_content, p_schema_id, p_schema_version, p_model, coalesce(p_tag_ids, '{}')) is not distinct from
    (v_latest.name, v_latest.content, v_latest.schema_id, v_latest.schema_version, v_latest.model, v_latest.tag_ids) then
    return v_latest.id;
  end if;
  -- References of the previous version may be hidden by now. They stay.
  perform private.check_prompt(
    v_head.org_id, p_name, p_content, nullif(p_schema_id, v_latest.schema_id), p_model,
    array(select unnest(p_tag_ids) except select unnest(v_latest.tag_ids))),
    private.check_pin(p_schema_id, p_schema_version);
  perform private.check_item_limit(v_latest.number, 'The prompt has 10,000 versions, the maximum. Create a new prompt.');
  begin
    update public.prompts set name = p_name where id = p_prompt_id;
  exception when unique_violation then
    raise exception 'A prompt with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
  insert into public.prompt_versions
    (org_id, prompt_id, number, name, content, schema_id, schema_version, model, tag_ids, run_id, call_id)
  values (v_head.org_id, p_prompt_id, v_latest.number + 1, p_name, p_content, p_schema_id, p_schema_version, p_model,
    coalesce(p_tag_ids, '{}'), private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Hides a prompt and returns how many extractions refer to it.
create function public.delete_prompt(p_prompt_id uuid) returns table (extractions bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.prompts set deleted_at = now()
  where id = p_prompt_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Prompt not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_prompt(p_prompt_id);
end $$;

-- extractions.sql

-- Extractions: the typed fields of a document. extraction_check.sql checks every write.

create table public.extractions (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  document_id uuid not null,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  document_type text check (char_length(document_type) between 1 and 200),
  -- The user who set the document type, if any.
  document_type_by uuid,
  status text not null default 'in_progress' check (status in ('in_progress', 'completed', 'failed')),
  -- The user who completed it, or approved all writes by agents. Maintained by extraction_check.
  reviewed_by uuid,
  reviewed_at timestamptz,
  -- `json` keeps the order of the fields.
  schema json check (json_typeof(schema) = 'object'),
  -- The version of the stored schema, and of the prompt, that the extraction uses.
  schema_revid uuid,
  prompt_revid uuid,
  -- The root run that created it; null if a user did.
  run_id uuid,
  extracted_fields jsonb not null default '{}' check (jsonb_typeof(extracted_fields) = 'object'),
  -- By path name: {"vendor.name": 0.9, "items[2].price": 1}. A nested object could not score both `a` and `a.b`.
  confidences jsonb not null default '{}' check (jsonb_typeof(confidences) = 'object'),
  -- The confidences of the values in the shape of the fields. Derived by check_extraction, which also accepts a write.
  confidence_scores jsonb not null default '{}' check (jsonb_typeof(confidence_scores) = 'object'),
  evidence jsonb not null default '{}' check (jsonb_typeof(evidence) = 'object'),
  -- Leaves that a user set, by path name: {"by": user, "at": time, "was": the agent's value, if there was one, "whole":
  -- true, if the user confirmed it with its list, object or call}. Agents
  -- may not change them.
  locks jsonb not null default '{}' check (jsonb_typeof(locks) = 'object'),
  -- By path name: missing, breaks_schema or breaks_rule. Found by the service, which knows the schema.
  problems jsonb not null default '{}' check (jsonb_typeof(problems) = 'object'),
  -- By path name, what only a second reading has: {"value", …} of a field without a value; {"rows"} of a list with other
  -- rows, each the index of a stored row, or {"row", …}. Both with its location, if it is printed.
  second_reading jsonb not null default '{}' check (jsonb_typeof(second_reading) = 'object'),
  -- Whether the fields follow the schema. Null: there is none, or the service has not checked this version yet.
  is_valid boolean,
  -- By path name: the reason for which a field needed review when a user confirmed it or completed the extraction.
  accepted jsonb not null default '{}' check (jsonb_typeof(accepted) = 'object'),
  -- The number of fields that a person has to look at. Maintained by check_extraction.
  review_count integer not null default 0,
  -- Since an agent completed it: its model, and by private.review_policy from which confidence a value is accepted without a
  -- look (by pattern; `*`: all others), and the rate of audits.
  model text,
  min_confidences jsonb not null default '{}',
  audit_rate float8,
  -- Extractions whose pages look alike have the same layout: see private.layout_of.
  layout uuid,
  layout_words integer[],
  -- The last field that had its chance to be drawn.
  drawn_to bigint not null default 0,
  -- The values that were accepted without a look.
  unseen_count integer not null default 0,
  -- The newest ten removed list items, newest first: {"version", "path", "audits"}, and what was stored about their values
  -- and the list. Restoring the version before brings all of it back.
  removed_items jsonb not null default '[]',
  -- Incremented with each change of extracted_fields.
  version integer not null default 0,
  -- An agent created it by itself, and no one has accepted it yet. Maintained by the database.
  is_suggestion boolean not null default false,
  -- Of a schema that is being tried out: no change is reported for it.
  is_trial boolean not null default false,
  -- Which of a document's extractions is the current one: the one with the lowest precedence, then the newest. Below 2
  -- they count: those that are empty hide no other, those that failed, trials, and suggestions no one has accepted are
  -- never current. A column, since a function would be called for each row of a table.
  precedence smallint not null generated always as (
    case when is_suggestion or is_trial then 3 when status = 'failed' then 2 when status = 'in_progress' and version = 0 then 1 else 0 end
  ) stored,
  unique (id, document_id, org_id),
  unique (id, org_id),
  -- Invisible characters, which make two keys look the same. Same list as domain/invisible.py.
  constraint has_no_invisible_characters check (
    extracted_fields::text !~ ('[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e'
      '\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
      '\U000e0000-\U000e0fff]')
  ),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (schema_revid, org_id) references public.schema_versions (id, org_id),
  foreign key (prompt_revid, org_id) references public.prompt_versions (id, org_id),
  check (schema_revid is null or schema is not null)
);
create index extractions_schema_revid on public.extractions (schema_revid, created_at desc, id desc)
  where schema_revid is not null;
-- The list of tables asks when each last changed.
create index extractions_table_changed on public.extractions (schema_revid, updated_at desc)
  where schema_revid is not null and precedence < 2;
create index extractions_prompt_revid on public.extractions (prompt_revid, document_id) where prompt_revid is not null;
create index extractions_run_id on public.extractions (run_id) where run_id is not null;
create index extractions_document_id on public.extractions (document_id, created_at desc, id desc);
create index extractions_org_id on public.extractions (org_id, created_at desc, id desc);
-- Open pages ask for what has just changed.
create index extractions_changed on public.extractions (org_id, updated_at);
create index extractions_status on public.extractions (org_id, status, created_at desc, id desc);
create index extractions_document_type on public.extractions (org_id, document_type, created_at desc, id desc);
create index extractions_to_review on public.extractions (org_id, created_at desc, id desc) where review_count > 0;
create index extractions_to_check on public.extractions (updated_at)
  where schema is not null and is_valid is null;
create index extractions_unseen on public.extractions (schema_revid, model) include (unseen_count, audit_rate, created_at, layout)
  where audit_rate > 0;
create index extractions_layout on public.extractions (layout) where layout is not null;
create index extractions_corrected on public.extractions (org_id, created_at desc)
  where status = 'completed' and locks <> '{}';
select private.protect_table('public.extractions', p_members_read => true);
grant insert (id, org_id, user_id, document_id, schema, schema_revid, prompt_revid, is_trial),
  update (
    document_type, status, extracted_fields, confidences, confidence_scores, evidence, locks
  ) on public.extractions to authenticated;

create policy "members begin extractions of their own" on public.extractions for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);
create policy "members change their extractions" on public.extractions
  for update to authenticated using (org_id in (select private.my_writable_org_ids()));

-- The schema version that a new extraction follows: the given one, else that of the prompt, unless the extraction has a
-- schema of its own. Refuses deleted items.
create function private.schema_to_extract(
  p_org_id uuid, p_prompt_revid uuid, p_schema_revid uuid, p_has_schema boolean default false
) returns uuid language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_prompt record;
  v_schema record;
  v_refusal text := 'The %s %L is deleted, so nothing can be extracted with it. Choose another one.';
begin
  if p_prompt_revid is not null then
    select v.schema_id, v.schema_version, p.name, p.deleted_at is null as is_usable into v_prompt
    from public.prompt_versions as v join public.prompts as p on p.id = v.prompt_id
    where v.id = p_prompt_revid and v.org_id = p_org_id;
    perform private.check_found(found, 'version of a prompt'),
      private.require(v_prompt.is_usable, format(v_refusal, 'prompt', v_prompt.name), 'PT409', 'deleted');
    if p_schema_revid is null and not p_has_schema then
      p_schema_revid := private.schema_revid_of(v_prompt.schema_id, v_prompt.schema_version);
    end if;
  end if;
  if p_schema_revid is not null then
    select s.name, s.deleted_at is null as is_usable into v_schema
    from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
    where v.id = p_schema_revid and v.org_id = p_org_id;
    perform private.check_found(found, 'version of a schema'),
      private.require(v_schema.is_usable, format(v_refusal, 'schema', v_schema.name), 'PT409', 'deleted');
  end if;
  return p_schema_revid;
end $$;

-- Fills in the run, the version of a schema, and its text. (Named before check_extraction, so that it looks at the text
-- that is stored.)
create function private.apply_extraction_defaults() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_schema json;
begin
  new.run_id := private.this_root_run();
  new.is_suggestion := private.is_proposed(new.run_id);
  new.schema_revid := private.schema_to_extract(
    new.org_id, new.prompt_revid, new.schema_revid, new.schema is not null);
  if new.schema_revid is not null then
    select schema into v_schema from public.schema_versions where id = new.schema_revid;
    perform private.require(
      coalesce(new.schema::jsonb = v_schema::jsonb, true), '`schema` differs from the schema version given. Send only one of them.');
    new.schema := v_schema;
  end if;
  return new;
end $$;

create trigger apply_extraction_defaults before insert on public.extractions
  for each row execute function private.apply_extraction_defaults();

-- Moves an extraction to another version of its schema and reopens it.
create function private.follow_schema(p_extraction_id uuid, p_schema_revid uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema json;
begin
  select v.schema into v_schema
  from public.extractions as e join public.schema_versions as v on v.org_id = e.org_id and v.id = p_schema_revid
  where e.id = p_extraction_id and e.org_id in (select private.my_writable_org_ids()) and private.is_service();
  perform private.require(found, 'Extraction or schema version not found.', 'PT404');
  update public.extractions set schema = v_schema, schema_revid = p_schema_revid, status = 'in_progress'
  where id = p_extraction_id;
end $$;

create function private.count_references_to_prompt(p_prompt_id uuid) returns table (extractions bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select count(*) from public.prompt_versions as v join public.extractions as e on e.prompt_revid = v.id
  where v.prompt_id = p_prompt_id
$$;

create function private.count_references_to_tag(p_tag_id uuid) returns table (documents bigint, prompts bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select (select count(*) from public.document_tags where tag_id = p_tag_id),
    (select count(*) from public.prompts as p
      where p.org_id = (select org_id from public.tags where id = p_tag_id) and p.deleted_at is null
        and p_tag_id = any (
          (select tag_ids from public.prompt_versions where prompt_id = p.id order by number desc limit 1)::uuid[]))
$$;

-- Deletes an extraction with its runs. Members delete their own and their keys' extractions, owners any.
create function public.delete_extraction(p_extraction_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.extractions
  where id = p_extraction_id and private.may_delete(org_id, created_by);
  perform private.check_found(found, 'extraction');
end $$;

-- stacks.sql

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

-- saved_views.sql

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

-- comments.sql

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

-- runs.sql

-- Runs: an agent working on one task. A run may be a child of another run, which waits for it.
-- The trigger fill_run sets `root_run_id`, `lock_key` and, unless it is given, `approval`. Their defaults make them optional
-- in the TypeScript types of the Supabase CLI.

create table public.runs (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  agent text not null,
  task text not null,
  -- The task's input: instructions of an extraction, message of a correction. At most 256 kB.
  input jsonb not null default '{}' check (jsonb_typeof(input) = 'object'),
  -- The subject. private.agent_tasks lists which of these columns a task uses.
  thread_id uuid,
  document_id uuid,
  extraction_id uuid,
  stack_id uuid,
  -- The parent run, its call that waits for this run, and the root run, which has the budget.
  parent_run_id uuid,
  parent_call_id text check (char_length(parent_call_id) between 1 and 200),
  root_run_id uuid not null default '00000000-0000-0000-0000-000000000000',
  -- The thread of the root run: users who see that thread see this run.
  root_thread_id uuid,
  -- Runs with the same lock key run one at a time, oldest first. The key starts with the organisation id.
  lock_key text not null default '',
  -- Default: the agent's.
  approval text not null default '' check (approval in ('auto', 'ask')),
  auto_approved_tools text[] not null default '{}'
    check (cardinality(auto_approved_tools) <= 100 and octet_length(auto_approved_tools::text) <= 10000),
  model text check (char_length(model) between 1 and 200),
  -- For the run and all its child runs. (NaN is greater than every number: without the upper bound it
  -- would be an unlimited budget.)
  max_cost_usd numeric(12, 6) check (max_cost_usd > 0 and max_cost_usd < 1000000),
  max_turns integer check (max_turns between 1 and 1000),
  -- Part of a batch: run by separate workers, so that it never delays a user.
  background boolean not null default false,
  -- Started by an agent on behalf of the user, such as an MCP client: no agent of the same user approves its calls.
  by_agent boolean not null default false,
  idempotency_key text check (char_length(idempotency_key) between 1 and 200),
  -- Hash of the request that used the key: the same key with another request is an error.
  request_hash text check (char_length(request_hash) = 64),
  status text not null default 'queued' check (
    status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs', 'completed', 'failed', 'cancelled')),
  -- Incremented each time a worker takes the run. A worker with a lower token can no longer write.
  fencing_token integer not null default 0,
  -- Number of consecutive attempts without a finished call.
  consecutive_failures integer not null default 0,
  -- The run's conversation, and the call that the run waits for or was resumed for.
  session_id uuid,
  waiting_call text,
  -- The corrections that the agent was shown as examples: [{extraction_id, path}].
  examples jsonb check (jsonb_typeof(examples) = 'array' and pg_column_size(examples) <= 20000),
  -- While the run waits for a decision or for child runs: whether a worker still keeps its CLI.
  attached boolean not null default false,
  -- The pages that the agent has read completely. (Reads are not recorded as tool calls.)
  pages_read int4multirange not null default '{}',
  -- While queued: since when it waits for capacity of its organisation.
  waiting_for_capacity_since timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  -- The final answer as text, and as typed data if the task has typed answers.
  answer text,
  result jsonb check (jsonb_typeof(result) = 'object' and pg_column_size(result) <= 262144),
  error text,
  error_code text,
  unique (id, org_id),
  unique (org_id, created_by, idempotency_key),
  check (extraction_id is null or document_id is not null),
  check (parent_call_id is null or parent_run_id is not null),
  check (status <> 'failed' or error is not null),
  check (error is null or status in ('failed', 'cancelled')),
  check (status not in ('awaiting_approval', 'awaiting_runs') or waiting_call is not null),
  check (not attached or status in ('awaiting_approval', 'awaiting_runs')),
  foreign key (org_id) references public.organisations (id) on delete cascade,
  foreign key (agent, task) references private.agent_tasks (agent, task),
  foreign key (thread_id, org_id) references public.threads (id, org_id) on delete cascade,
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (extraction_id, document_id, org_id)
    references public.extractions (id, document_id, org_id) on delete cascade,
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade,
  foreign key (parent_run_id, org_id) references public.runs (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
create index runs_org_id on public.runs (org_id, created_at desc, id desc);
create index runs_created_by on public.runs (org_id, created_by, created_at desc, id desc);
create index runs_status on public.runs (org_id, created_by, status, created_at desc, id desc);
create index runs_thread_id on public.runs (thread_id, created_at desc, id desc);
create index runs_document_id on public.runs (document_id);
create index runs_extraction_id on public.runs (extraction_id, created_at desc, id desc);
create index runs_stack_id on public.runs (stack_id, created_at desc, id desc);
create index runs_parent_run_id on public.runs (parent_run_id, parent_call_id);
create index runs_session_id on public.runs (session_id);
create index runs_inbox on public.runs (org_id, created_at desc, id desc) where status = 'awaiting_approval';
create index runs_open on public.runs (org_id, status, document_id)
  where status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs');
create index runs_waiting_for_capacity on public.runs (org_id, created_at) where waiting_for_capacity_since is not null;
create index runs_lock_key on public.runs (lock_key)
  where status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs');
select private.protect_table('public.runs', p_service => '{update}');
grant select, insert (
  id, org_id, agent, task, input, thread_id, document_id, extraction_id, stack_id, parent_run_id, parent_call_id,
  approval, auto_approved_tools, model, max_cost_usd, idempotency_key, request_hash, background, max_turns,
  by_agent
) on public.runs to authenticated;
grant update (
  status, fencing_token, consecutive_failures, session_id, waiting_call, attached,
  pages_read, waiting_for_capacity_since, started_at, finished_at, answer, result, error, error_code, examples
) on public.runs to authenticated;

create policy "members read their runs" on public.runs for select to authenticated
  using (
    org_id in (select private.my_org_ids())
    and (root_thread_id is null or exists (select from public.threads as t where t.id = root_thread_id))
  );
create policy "members start runs of their own, and the service their parts" on public.runs for insert to authenticated
  with check (
    org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid())
    and (parent_run_id is null or (select private.is_service()))
  );

-- The input of a new run with what a second model reads again: as the run says, else the schema, else the organisation.
-- (Without it, nothing.)
create function private.with_second_reading(p_input jsonb, p_extraction_id uuid, p_org public.organisations) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when mode in ('unsure', 'all') then p_input || jsonb_build_object('second_reading', mode) else p_input end
  from (select coalesce(
    p_input ->> 'second_reading',
    (select e.schema::jsonb #>> '{x-fieldmark,second_reading}' from public.extractions as e where e.id = p_extraction_id),
    p_org.second_reading) as mode) as said
$$;

-- Fills in a new run's columns and rejects a run that matches no task.
-- Security definer: checks threads and runs that the caller may not see.
create function private.fill_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_task private.agent_tasks;
  v_has text[] := array_remove(array[
    case when new.document_id is not null then 'document_id' end,
    case when new.extraction_id is not null then 'extraction_id' end,
    case when new.thread_id is not null then 'thread_id' end,
    case when new.stack_id is not null then 'stack_id' end], null);
  v_wrong text;
  v_org public.organisations;
  v_thread public.threads;
  v_parent public.runs;
begin
  select * into v_task from private.agent_tasks where agent = new.agent and task = new.task;
  perform private.require(
    found, format('There is no agent %s with a task %s.', left(new.agent, 80), left(new.task, 80)));
  select name into v_wrong from unnest(v_task.needs) as name where name <> all (v_has) limit 1;
  perform private.require(not found, format('A run of the task %s needs a %s.', new.task, v_wrong));
  select name into v_wrong from unnest(v_has) as name where name <> all (v_task.needs || v_task.may_have) limit 1;
  perform private.require(not found, format('A run of the task %s has no %s.', new.task, v_wrong));
  select name into v_wrong from unnest(v_task.input_needs) as name where coalesce(new.input ->> name, '') = '' limit 1;
  perform private.require(not found, format('The input of the task %s needs %s.', new.task, v_wrong));
  select name into v_wrong from jsonb_object_keys(new.input) as name where name <> all (v_task.input_may_have) limit 1;
  perform private.require(not found, format('The input of the task %s has no %s.', new.task, left(v_wrong, 80)));
  perform private.check_json(new.input, 'The input of a run');
  perform private.require(pg_column_size(new.input) <= 262144, 'The input of a run may not exceed 256 kB.');
  select * into v_org from public.organisations where id = new.org_id;
  if 'second_reading' = any (v_task.input_may_have) then
    new.input := private.with_second_reading(new.input, new.extraction_id, v_org);
  end if;
  new.approval := coalesce(
    nullif(new.approval, ''), v_task.approval, (select approval from private.agents where name = new.agent));
  -- If a second person or an owner must decide, neither the creator nor the organisation can approve in advance.
  if v_org.second_person
    or (v_org.approvers = 'owners' and private.role_of(new.org_id, new.created_by) is distinct from 'owner') then
    new.approval := 'ask';
    new.auto_approved_tools := '{}';
  else
    new.auto_approved_tools := array(
      select distinct tool from unnest(new.auto_approved_tools || v_org.auto_approved_tools) as tool order by tool);
  end if;

  if new.thread_id is not null then
    update public.threads set updated_at = clock_timestamp()
    where id = new.thread_id and org_id = new.org_id and created_by is not distinct from new.created_by
    returning * into v_thread;
    perform private.require(found, 'Thread not found.');
    perform private.require(v_thread.agent = new.agent, format('The thread belongs to the agent %s.', v_thread.agent));
    perform private.require(
      coalesce(v_thread.document_id = new.document_id, v_thread.document_id is null), 'The thread is about another document.');
  end if;

  new.root_run_id := new.id;
  new.root_thread_id := new.thread_id;
  if new.parent_run_id is not null then
    select * into v_parent from public.runs where id = new.parent_run_id and org_id = new.org_id;
    perform private.require(found, 'Parent run not found.');
    perform private.require(
      v_parent.status not in ('completed', 'failed', 'cancelled'), 'The parent run has ended.', 'PT410');
    new.root_run_id := v_parent.root_run_id;
    new.root_thread_id := coalesce(v_parent.root_thread_id, new.thread_id);
  end if;

  new.lock_key := new.org_id || case
    when new.extraction_id is not null then '/extraction/' || new.extraction_id
    when new.thread_id is not null then '/thread/' || new.thread_id
    when new.stack_id is not null then '/stack/' || new.stack_id
    else '/run/' || new.id
  end;
  return new;
end $$;

create trigger fill_run before insert on public.runs for each row execute function private.fill_run();

-- Locks a run for this transaction if the worker with this fencing token still has it.
create function private.fence(p_run_id uuid, p_fencing_token integer) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.runs
  where id = p_run_id and (status = 'running' or attached) and fencing_token = p_fencing_token for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
end $$;

-- Deletes an ended run with its events, calls and child runs. Written values and usage are kept.
create function public.delete_run(p_run_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  select * into v_run from public.runs as r
  where id = p_run_id and private.may_delete(org_id, created_by)
    and (root_thread_id is null or exists (
      select from public.threads as t where t.id = r.root_thread_id and (t.shared or t.created_by = auth.uid())))
  for update;
  perform private.check_found(found, 'run');
  perform private.require(v_run.parent_run_id is null, 'This is a child run. Delete its parent run instead.', 'PT409');
  perform private.require(
    v_run.status in ('completed', 'failed', 'cancelled'), 'The run has not ended. Cancel it first.', 'PT409');
  delete from public.runs where id = p_run_id;
end $$;

create function private.scope_of_run(p_run_id uuid) returns table (user_id uuid, org_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select created_by, org_id from public.runs where id = p_run_id $$;

-- Security definer: the run may be in a conversation that the caller cannot see.
create function private.has_active_run(p_extraction_id uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.runs
    where extraction_id = p_extraction_id and org_id in (select private.my_org_ids())
      and status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs'))
$$;

create function private.count_waiting_runs() returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select count(*) from public.runs where status = 'awaiting_approval' $$;

-- Marks the extraction of a failed run as failed, unless a completed run or a user has also worked on it. A child run that
-- only helps another run on the extraction does not count.
create function private.fail_extraction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.extractions as e set status = 'failed'
  where id = new.extraction_id and status = 'in_progress' and locks = '{}' and document_type_by is null
    and not exists (select from public.runs where extraction_id = e.id and status = 'completed')
    and not exists (select from public.runs where id = new.parent_run_id and extraction_id = e.id);
  return null;
end $$;

create trigger fail_extraction after update of status on public.runs
  for each row when (new.status in ('failed', 'cancelled') and new.extraction_id is not null)
  execute function private.fail_extraction();

-- run_events.sql

-- Run events: the ordered event log of each run.

create table public.run_events (
  run_id uuid not null,
  -- 1, 2, 3 … without a gap, in the order of commit.
  number integer not null check (number > 0),
  org_id uuid not null,
  -- One flat object of the event stream, stored as text and never queried.
  body json not null check (json_typeof(body) = 'object'),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  primary key (run_id, number),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
select private.protect_table('public.run_events', p_service => '{insert}');
grant select, insert (run_id, number, org_id, body) on public.run_events to authenticated;

create policy "members read the events of their runs" on public.run_events for select to authenticated
  using (org_id in (select private.my_org_ids()) and exists (select from public.runs as r where r.id = run_id));

-- Appends an event and notifies readers. The lock on the run makes event numbers follow commit order. A child's event
-- is also appended to its open parent as a `child` event, except to the run of a stack, which has `progress` events.
-- Children are locked before parents (child_runs.sql).
-- Without `p_notify` the caller notifies after the commit (private.notify): NOTIFY holds a database-wide lock until the commit
-- is on disk, so only one writer at a time would get through.
create function private.append_event(p_run_id uuid, p_body json, p_notify boolean default true) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
  v_number integer;
begin
  select * into v_run from public.runs where id = p_run_id for no key update;
  perform private.check_found(found, 'run');
  select coalesce(max(number), 0) + 1 into v_number from public.run_events where run_id = p_run_id;
  insert into public.run_events (run_id, number, org_id, body) values (p_run_id, v_number, v_run.org_id, p_body);
  if v_run.parent_call_id is not null then
    perform from public.runs
    where id = v_run.parent_run_id and status not in ('completed', 'failed', 'cancelled') and stack_id is null
    for no key update;
    if found then  -- no event follows the last event of a run
      perform private.append_event(
        v_run.parent_run_id,
        json_build_object(
          'type', 'child', 'parent_call_id', v_run.parent_call_id, 'run_id', p_run_id, 'event', p_body),
        p_notify);
    end if;
  end if;
  if p_notify then
    perform pg_notify('fieldmark_run_events', p_run_id::text);
  end if;
  return v_number;
end $$;

-- The channel for model output that is not stored yet. Any login role can listen to a channel whose name it knows:
-- this name is random, and only the service can read it.
create table private.delta_channel (
  name text not null default 'fieldmark_' || encode(uuid_send(gen_random_uuid()), 'hex')
);
insert into private.delta_channel default values;
select private.protect_table('private.delta_channel');

create function private.delta_channel() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select name from private.delta_channel where private.is_service() $$;

-- Publishes partial model output in order. Each part carries the number of the event before it. The fence's
-- lock makes that number exact and stops a worker that has lost the run. Readers of parent runs get it as `child`,
-- with the run before the position (`<run>/<position>`).
create function private.notify_deltas(p_run_id uuid, p_fencing_token integer, p_chunks text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_channel text := private.delta_channel();
  v_chunks text[] := p_chunks;
  v_run public.runs;
  v_after integer;
begin
  perform private.fence(p_run_id, p_fencing_token);
  -- Nothing is stored, so there is no disk write to wait for.
  perform set_config('synchronous_commit', 'off', true);
  select * into v_run from public.runs where id = p_run_id;
  loop
    select coalesce(max(number), 0) into v_after from public.run_events where run_id = v_run.id;
    perform pg_notify(v_channel, concat_ws(' ', v_run.id, v_after, chunk)) from unnest(v_chunks) as chunk;
    exit when v_run.parent_call_id is null;
    -- A part is "<position> <from> <to> <body>". Parts too long for a notification are dropped.
    v_chunks := array(
      select wrapped_part from (
        select n, format(
            '%s%s {"type": "child", "parent_call_id": %s, "run_id": "%s", "event": %s}',
            case when v_run.id = p_run_id then p_run_id || '/' end,
            array_to_string((string_to_array(chunk, ' '))[1:3], ' '), to_json(v_run.parent_call_id), v_run.id,
            array_to_string((string_to_array(chunk, ' '))[4:], ' ')) as wrapped_part
        from unnest(v_chunks) with ordinality as given (chunk, n)) as wrapped
      where octet_length(wrapped_part) < 7900 order by n);
    select * into v_run from public.runs where id = v_run.parent_run_id;
    exit when not found;
  end loop;
end $$;

-- Notifies readers of committed events, also of parent runs, without waiting for the disk. A reader that misses it
-- polls. Security definer: the caller has no user and sees no run.
create function private.notify(p_channels text[], p_payloads text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform pg_notify(channel, payload) from unnest(p_channels, p_payloads) as messages (channel, payload);
  perform pg_notify('fieldmark_run_events', id::text)
  from (
    with recursive above as (
      select r.parent_run_id as id from unnest(p_channels, p_payloads) as messages (channel, payload)
      join public.runs as r on r.id = case when channel = 'fieldmark_run_events' then payload::uuid end
      union
      select r.parent_run_id from public.runs as r join above on r.id = above.id
    )
    select id from above where id is not null) as parent;
end $$;

create function private.notify_run_deleted() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_notify('fieldmark_run_events', old.id::text), pg_notify('fieldmark_work', old.id::text);
  return null;
end $$;

create trigger notify_run_deleted after delete on public.runs
  for each row when (old.status not in ('completed', 'failed', 'cancelled')) execute function private.notify_run_deleted();

-- Notifies readers of runs in a thread that is no longer shared: they check again and lose access.
create function private.notify_thread_unshared() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_notify('fieldmark_run_events', part::text)
  from public.runs as r cross join lateral unnest(private.tree_of_run(r.id)) as part
  where r.thread_id = new.id and r.status not in ('completed', 'failed', 'cancelled');
  return null;
end $$;

create trigger notify_thread_unshared after update of shared on public.threads
  for each row when (old.shared and not new.shared) execute function private.notify_thread_unshared();

-- Fails a run without a worker, of any user: its document failed, or it was retried too often.
create function private.fail_run(p_run_id uuid, p_error text, p_code text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.runs set status = 'failed', error = p_error, error_code = p_code, finished_at = now()
  where id = p_run_id and status in ('queued', 'running');
  if found then
    perform private.append_event(
      p_run_id,
      json_build_object('type', 'error', 'error', p_error, 'code', p_code, 'run_id', p_run_id, 'text', p_error));
  end if;
end $$;

-- tool_calls.sql

-- Tool calls: the ledger. The permission hook records a call; the tool's transaction claims and finishes it.

create table public.tool_calls (
  run_id uuid not null,
  id text not null check (char_length(id) between 1 and 200),
  org_id uuid not null,
  tool text not null,
  -- `json`, so that a schema in them keeps the order of its fields.
  arguments json not null,
  -- SHA-256 of the arguments' canonical JSON: a call runs only with the arguments that were approved.
  arguments_hash text not null check (arguments_hash ~ '^[0-9a-f]{64}$'),
  -- `waiting`: child runs of the call are still open.
  status text not null check (status in ('pending', 'approved', 'waiting', 'refused', 'done', 'failed')),
  approved_by text check (approved_by in ('policy', 'person')),
  reason text,
  -- The user who decided the call, and when; and the agent's original arguments, if the user changed them.
  decided_by uuid,
  decided_at timestamptz,
  proposed json,
  -- The changes of a waiting call, as shown. Its target must still have this hash and version.
  changes jsonb,
  target_hash text check (target_hash ~ '^[0-9a-f]{64}$'),
  target_version bigint,
  -- The tool's result for the model, repeated if the call comes again; and as data for programs.
  result text,
  code text check (char_length(code) between 1 and 100),
  data jsonb,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  primary key (run_id, id),
  check ((status in ('pending', 'refused')) = (approved_by is null)),
  check ((status in ('done', 'failed')) = (result is not null)),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
select private.protect_table('public.tool_calls', p_service => '{insert,update}');
grant select,
  insert (
    run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, reason, changes, target_hash,
    target_version
  ),
  update (
    status, result, code, data, finished_at, approved_by, reason, decided_by, decided_at, arguments, arguments_hash,
    proposed, changes, target_hash, target_version
  ) on public.tool_calls to authenticated;

create policy "members read the calls of their runs" on public.tool_calls for select to authenticated
  using (org_id in (select private.my_org_ids()) and exists (select from public.runs as r where r.id = run_id));

-- Records a call once. Does not wait for the disk: the transaction that claims the call does, and
-- earlier log records are then on disk too.
create function private.record_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_org_id uuid, p_tool text, p_arguments json,
  p_arguments_hash text, p_status text, p_reason text, p_changes jsonb default null, p_target_hash text default null,
  p_target_version bigint default null
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- No lock here: the hook must not wait for writers of events. The tool's transaction holds the fence.
  perform private.require(
    exists (select from public.runs where id = p_run_id and status = 'running' and fencing_token = p_fencing_token),
    'The run has ended, or another worker has taken it over.', 'PT410');
  if p_status <> 'pending' then  -- a pending decision must survive a crash
    perform set_config('synchronous_commit', 'off', true);
  end if;
  insert into public.tool_calls
    (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, reason, changes, target_hash,
      target_version)
  values (p_run_id, p_call_id, p_org_id, p_tool, p_arguments, p_arguments_hash, p_status,
    case p_status when 'approved' then 'policy' end, p_reason, p_changes, p_target_hash, p_target_version)
  on conflict (run_id, id) do nothing;
end $$;

-- Locks this call, and sets the author of this transaction's writes.
create function private.claim_call(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_tool text, p_arguments_hash text
) returns table (status text, result text, code text, data jsonb)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform private.fence(p_run_id, p_fencing_token);
  perform set_config('fieldmark.run_id', p_run_id::text, true), set_config('fieldmark.call_id', p_call_id, true);
  return query
    select c.status, c.result, c.code, c.data from public.tool_calls as c
    where c.run_id = p_run_id and c.id = p_call_id and c.tool = p_tool and c.arguments_hash = p_arguments_hash
    for no key update;
end $$;

-- Stores a call's result and events. The caller publishes these after the commit.
create function private.finish_call(
  p_run_id uuid, p_call_id text, p_result text, p_failed boolean, p_code text default null, p_data jsonb default null,
  p_events json default null
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.tool_calls set
    status = case when p_failed then 'failed' else 'done' end, result = p_result, code = p_code, data = p_data,
    finished_at = clock_timestamp()
  where run_id = p_run_id and id = p_call_id and status in ('approved', 'waiting');
  perform private.require(found, 'This call cannot run: it was not approved, or it has already finished.', 'PT409');
  if not p_failed then
    update public.runs set consecutive_failures = 0 where id = p_run_id and consecutive_failures > 0;
  end if;
  perform private.append_event(p_run_id, value, false) from json_array_elements(p_events);
end $$;

-- usage.sql

-- Usage: the cost of each model message, and spending limits of organisations.

-- No foreign key to the run: usage is kept when a document is deleted.
create table public.usage (
  run_id uuid not null,
  -- The attempt (its fencing token), the number of the message in it, and the provider's message id, which proves
  -- nothing by itself. The same message is charged once.
  message_id text not null check (char_length(message_id) between 1 and 200),
  org_id uuid not null references public.organisations (id) on delete cascade,
  agent text not null,
  -- The run's task, and the schema of the table that it writes to. Null: none, or the run was already deleted.
  task text,
  schema_id uuid,
  -- Whether it is the first message of a run that reads a document.
  is_reading boolean not null default false,
  model text not null check (char_length(model) between 1 and 200),
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
  cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
  cache_read_tokens bigint not null check (cache_read_tokens >= 0),
  -- US dollars, by our price table; null for an unknown model.
  cost_usd numeric(18, 10) check (cost_usd >= 0 and cost_usd < 1000000),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  -- The root run, whose budget is charged. Kept when the run is deleted.
  root_run_id uuid not null,
  primary key (run_id, message_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
create index usage_org_id on public.usage (org_id);
create index usage_root_run_id on public.usage (root_run_id) include (run_id, cost_usd);
select private.protect_table('public.usage', p_members_read => true);
grant insert (
  run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, cost_usd
) on public.usage to authenticated;

create policy "the service charges what was used" on public.usage
  for insert to authenticated with check (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Fills in what the run is about. For a deleted run: as in its earlier messages.
create function private.fill_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_earlier record;
  v_run record;
begin
  select root_run_id, task, schema_id into v_earlier
  from public.usage where run_id = new.run_id and org_id = new.org_id limit 1;
  new.is_reading := not found;
  select r.root_run_id, r.task, coalesce(v.schema_id, t.schema_id) as schema_id,
    r.document_id is not null and not k.is_message as is_reading into v_run
  from public.runs as r
  join private.agent_tasks as k on k.agent = r.agent and k.task = r.task
  left join public.extractions as e on e.id = r.extraction_id
  left join public.schema_versions as v on v.id = e.schema_revid
  left join public.stack_tables as t on t.stack_id = r.stack_id
  where r.id = new.run_id and r.org_id = new.org_id;
  new.is_reading := new.is_reading and coalesce(v_run.is_reading, false);
  if not found then
    v_run := v_earlier;
  end if;
  new.root_run_id := coalesce(v_run.root_run_id, new.run_id);
  new.task := v_run.task;
  new.schema_id := v_run.schema_id;
  return new;
end $$;

create trigger fill_usage before insert on public.usage for each row execute function private.fill_usage();

-- Usage by day (UTC), agent, task, table and model, summed while charging, so that no query has to sum messages.
create table public.usage_by_day (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  day date not null,
  agent text not null,
  task text,
  schema_id uuid,
  model text not null,
  -- A day has several rows, so that concurrent charges do not wait for each other.
  slot integer not null check (slot between 0 and 7),
  -- A document that is read again counts again.
  documents_read bigint not null,
  messages bigint not null,
  unpriced bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_tokens bigint not null,
  cache_read_tokens bigint not null,
  cost_usd numeric not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  unique nulls not distinct (org_id, day, agent, task, schema_id, model, slot)
) with (fillfactor = 50);
select private.protect_table('public.usage_by_day', p_members_read => true);

create function private.add_up_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.usage_by_day as d (
    org_id, day, agent, task, schema_id, model, slot, documents_read, messages, unpriced, input_tokens, output_tokens, cache_write_tokens,
    cache_read_tokens, cost_usd)
  values (
    new.org_id, (new.created_at at time zone 'utc')::date, new.agent, new.task, new.schema_id, new.model,
    pg_backend_pid() % 8, new.is_reading::integer, 1, (new.cost_usd is null)::integer, new.input_tokens, new.output_tokens,
    new.cache_write_5m_tokens + new.cache_write_1h_tokens, new.cache_read_tokens, coalesce(new.cost_usd, 0))
  on conflict (org_id, day, agent, task, schema_id, model, slot) do update set
    documents_read = d.documents_read + excluded.documents_read, messages = d.messages + excluded.messages, unpriced = d.unpriced + excluded.unpriced,
    input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
    cache_write_tokens = d.cache_write_tokens + excluded.cache_write_tokens,
    cache_read_tokens = d.cache_read_tokens + excluded.cache_read_tokens, cost_usd = d.cost_usd + excluded.cost_usd;
  return null;
end $$;

create trigger add_up_usage after insert on public.usage for each row execute function private.add_up_usage();

-- Written by the database administrator only. Null: no limit.
create table public.credit_limits (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  -- Per calendar month (UTC).
  max_usd numeric(18, 10) check (max_usd >= 0 and max_usd < 100000000),
  max_concurrent_runs integer check (max_concurrent_runs >= 1),
  -- Of stored documents (quotas.sql).
  max_documents bigint check (max_documents >= 0),
  max_bytes bigint check (max_bytes >= 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);
select private.protect_table('public.credit_limits', p_members_read => true);

-- The cost of a run and all runs below it; null if a message has no price. Deleted children count for the root.
create function private.cost_of_run(p_run_id uuid) returns numeric
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive of_root as materialized (
    select cost_usd from public.usage where root_run_id = p_run_id
  ), tree as (
    select p_run_id as id where not exists (select from of_root)
    union all
    select r.id from public.runs as r join tree on r.parent_run_id = tree.id
  )
  select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0) end
  from (
    select cost_usd from of_root
    union all
    select u.cost_usd from tree join public.usage as u on u.run_id = tree.id
  ) as message
$$;

create function private.spent_this_month(p_org_id uuid) returns numeric
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(sum(cost_usd), 0) from public.usage_by_day
  where org_id = p_org_id and day >= date_trunc('month', now() at time zone 'utc')::date
$$;

-- credit.sql

-- Credit: decides which runs may start, by lock key, budget and the organisation's limits.

-- Locks the organisation's row, so that runs start and end one by one. Taken after locks on runs.
create function private.lock_credit(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if p_org_id in (select private.my_writable_org_ids()) and private.is_service() then
    perform from public.organisations where id = p_org_id for no key update;
  end if;
end $$;

-- Security definer: also counts runs in other members' threads.
create function private.count_active_runs(p_org_id uuid, p_run_id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from public.runs as r
  where r.org_id = p_org_id and r.status = 'running' and r.id <> p_run_id
    and p_org_id in (select private.my_org_ids())
$$;

-- Runs with the same lock key that come first: the running one, older queued ones, and in a thread or on a stack an
-- older one that waits for a decision or for child runs.
create function private.runs_ahead(p_run public.runs) returns setof public.runs
language sql stable set search_path = pg_catalog, pg_temp as $$
  select r.* from public.runs as r
  where r.lock_key = p_run.lock_key and r.id <> p_run.id
    and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs')
    and (
      r.status = 'running'
      or (r.created_at, r.id) < (p_run.created_at, p_run.id)
        and (r.status = 'queued' or r.root_run_id <> p_run.root_run_id
          and (r.thread_id = p_run.thread_id or r.stack_id = p_run.stack_id)))
$$;

-- Security definer: the blocking run may be invisible to the caller.
create function private.is_blocked(p_run public.runs) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select exists (select from private.runs_ahead(p_run)) $$;

-- Returns the run directly before a queued run, if the caller can see it; otherwise null.
create function private.waits_behind(p_run public.runs) returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select r.id from private.runs_ahead(p_run) as r
  where p_run.status = 'queued'
  order by (r.created_at, r.id) < (p_run.created_at, p_run.id) desc, r.created_at desc, r.id desc limit 1
$$;

-- Whether the budget of the run or of its root run is used up. Null if neither has a budget.
create function private.is_budget_spent(p_run public.runs) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select bool_or(coalesce(r.max_cost_usd <= private.cost_of_run(r.id), false)) from public.runs as r
  where r.id in (p_run.id, p_run.root_run_id) and r.max_cost_usd is not null
$$;

-- Queues the oldest unblocked run that waits for capacity, if there is capacity.
create function private.queue_held_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := old.org_id;
begin
  perform from public.organisations where id = v_org for no key update;
  update public.runs set waiting_for_capacity_since = null
  where id = (
      select r.id from public.runs as r
      where r.org_id = v_org and r.status = 'queued' and r.waiting_for_capacity_since is not null and not private.is_blocked(r)
      order by r.created_at, r.id limit 1 for no key update skip locked)
    and (select count(*) from public.runs where org_id = v_org and status = 'running') <
      coalesce((select max_concurrent_runs from public.credit_limits where org_id = v_org), 2147483647);
  return null;
end $$;

create function private.is_credit_spent(p_org_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.credit_limits
    where org_id = p_org_id and max_usd is not null and private.spent_this_month(org_id) >= max_usd)
$$;

-- Decides whether a worker may start a run. `p_priced`: the model has a price. The result is valid in this transaction:
--   granted         the run may start
--   held            the organisation has no capacity; the run is queued again when another run ends
--   out_of_credit, max_cost, model_unpriced   the run must fail with this code
-- Null if the run has ended or is not visible.
create function private.check_capacity(p_run_id uuid, p_priced boolean) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
  v_limits public.credit_limits;
  v_spent boolean;
  v_collects boolean;
begin
  select * into v_run from public.runs where id = p_run_id and status in ('queued', 'running') for no key update;
  if not found then
    return null;
  end if;
  v_spent := private.is_budget_spent(v_run);
  -- It collects the results of its child runs, which costs nothing. The worker asks again before it calls the model.
  v_collects := v_run.status = 'queued' and exists (
    select from public.tool_calls where run_id = v_run.id and id = v_run.waiting_call and status = 'waiting');
  perform private.lock_credit(v_run.org_id);
  select * into v_limits from public.credit_limits where org_id = v_run.org_id;
  if not p_priced and (v_spent is not null or v_limits.max_usd is not null) then
    return 'model_unpriced';
  elsif v_spent and not v_collects then
    return 'max_cost';
  elsif not v_collects and private.is_credit_spent(v_run.org_id) then
    return 'out_of_credit';
  -- A run taken over from a dead worker already counts as active.
  elsif v_run.status = 'running' then
    return 'granted';
  elsif private.count_active_runs(v_run.org_id, p_run_id) >= v_limits.max_concurrent_runs or private.is_blocked(v_run) then
    update public.runs set waiting_for_capacity_since = now() where id = p_run_id;
    return 'held';
  end if;
  return 'granted';
end $$;

-- Charges one model message. Returns null, or why the run must stop (max_cost, out_of_credit). It takes
-- no lock on the organisation: parallel runs may exceed its limit by the messages in progress.
create function private.charge(
  p_run_id uuid, p_org_id uuid, p_agent text, p_message_id text, p_model text, p_input_tokens bigint,
  p_output_tokens bigint, p_cache_write_5m_tokens bigint, p_cache_write_1h_tokens bigint, p_cache_read_tokens bigint,
  p_cost_usd numeric
) returns text language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  insert into public.usage (
    run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    cache_read_tokens, cost_usd)
  values (
    p_run_id, p_message_id, p_org_id, p_agent, p_model, p_input_tokens, p_output_tokens, p_cache_write_5m_tokens,
    p_cache_write_1h_tokens, p_cache_read_tokens, p_cost_usd) on conflict (run_id, message_id) do nothing;
  select * into v_run from public.runs where id = p_run_id and status = 'running';
  return case
    when not found then null  -- the run was ended elsewhere
    when private.is_budget_spent(v_run) then 'max_cost'
    when private.is_credit_spent(p_org_id) then 'out_of_credit'
  end;
end $$;

-- Also when a run starts: there may be capacity for more than one.
create constraint trigger queue_held_run_when_status_changes after update of status on public.runs
  deferrable initially deferred for each row when (
    new.status <> old.status
    and (old.status in ('queued', 'running') or new.status in ('completed', 'failed', 'cancelled')))
  execute function private.queue_held_run();
create constraint trigger queue_held_run_when_deleted after delete on public.runs
  deferrable initially deferred for each row when (old.status not in ('completed', 'failed', 'cancelled'))
  execute function private.queue_held_run();
create constraint trigger queue_held_run_when_limits_change after update or delete on public.credit_limits
  deferrable initially deferred for each row execute function private.queue_held_run();

-- quotas.sql

-- Quotas: how many documents and bytes an organisation stores, and the most that it may (credit_limits).

-- Maintained by the triggers below, so that an upload counts nothing. A document that a password unlocked is stored twice.
create table public.storage_usage (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  documents bigint not null,
  bytes bigint not null,
  -- What the feed of changes last said: 80 or 100 percent of a quota, or 0.
  reported_percent integer not null default 0,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
select private.protect_table('public.storage_usage', p_members_read => true);

create function private.stored_bytes(p_byte_size bigint, p_unlocked_path text) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp
return coalesce(p_byte_size, 0) * case when p_unlocked_path is null then 1 else 2 end;

-- Records once that 80 or 100 percent of a quota is used, until less than 80 percent is.
create function private.report_quota(p_org_id uuid, p_percent integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.storage_usage set reported_percent = p_percent
  where org_id = p_org_id and (p_percent > reported_percent or p_percent < 80 and reported_percent > 0);
  if found and p_percent >= 80 then
    insert into public.changes (org_id, type)
    values (p_org_id, case p_percent when 100 then 'quota.reached' else 'quota.warning' end);
  end if;
end $$;

-- Records that an upload was refused, which undid its own record. Called by the service.
create function private.report_full_quota(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if p_org_id in (select private.my_writable_org_ids()) and private.is_service() then
    perform private.report_quota(p_org_id, 100);
  end if;
end $$;

-- Adds to what an organisation stores. Uploads of one organisation wait here for each other, at the end of their
-- transactions, so that concurrent ones cannot exceed a quota.
create function private.add_storage(p_org_id uuid, p_documents bigint, p_bytes bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_used public.storage_usage;
  v_limits public.credit_limits;
  v_share numeric;
  v_refusal text := 'The organisation stores %s of at most %s %s. Delete documents, or ask the administrator for more.';
begin
  update public.storage_usage set documents = documents + p_documents, bytes = bytes + p_bytes
  where org_id = p_org_id returning * into v_used;
  if not found and p_documents > 0 then
    insert into public.storage_usage as u (org_id, documents, bytes) values (p_org_id, p_documents, p_bytes)
    on conflict (org_id) do update set documents = u.documents + p_documents, bytes = u.bytes + p_bytes
    returning * into v_used;
  end if;
  select * into v_limits from public.credit_limits where org_id = p_org_id;
  if p_documents > 0 or p_bytes > 0 then
    perform private.require(
      coalesce(v_used.documents <= v_limits.max_documents, true),
      format(v_refusal, v_used.documents - p_documents, v_limits.max_documents, 'documents'), 'PT409', 'quota_exceeded');
    perform private.require(
      coalesce(v_used.bytes <= v_limits.max_bytes, true),
      format(v_refusal, v_used.bytes - p_bytes, v_limits.max_bytes, 'bytes'), 'PT409', 'quota_exceeded');
  end if;
  v_share := greatest(
    v_used.documents::numeric / nullif(v_limits.max_documents, 0), v_used.bytes::numeric / nullif(v_limits.max_bytes, 0));
  if v_share >= 0.8 or v_used.reported_percent > 0 then
    perform private.report_quota(p_org_id, case when v_share >= 1 then 100 when v_share >= 0.8 then 80 else 0 end);
  end if;
end $$;

create function private.count_added_documents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.add_storage(org_id, count(*), sum(private.stored_bytes(byte_size, unlocked_path))::bigint)
  from added group by org_id order by org_id;
  return null;
end $$;
create trigger count_storage after insert on public.documents
  referencing new table as added for each statement execute function private.count_added_documents();

create function private.count_removed_documents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.add_storage(org_id, -count(*), -sum(private.stored_bytes(byte_size, unlocked_path))::bigint)
  from gone group by org_id order by org_id;
  return null;
end $$;
create trigger uncount_storage after delete on public.documents
  referencing old table as gone for each statement execute function private.count_removed_documents();

-- The size of a file that a front end stored is known when it is read.
create function private.count_changed_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.add_storage(new.org_id, 0, private.stored_bytes(new.byte_size, new.unlocked_path) - private.stored_bytes(old.byte_size, old.unlocked_path));
  return null;
end $$;
create trigger count_changed_storage after update of byte_size, unlocked_path on public.documents
  for each row when ((new.byte_size, new.unlocked_path) is distinct from (old.byte_size, old.unlocked_path))
  execute function private.count_changed_document();

-- decisions.sql

-- Decisions: a call waits for approval. The transaction of the decision runs the call, then the run continues.

-- `p_attached`: the worker keeps the CLI process alive for a while.
create function private.await_approval(
  p_run_id uuid, p_fencing_token integer, p_call_id text, p_attached boolean, p_event json
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform private.fence(p_run_id, p_fencing_token);
  perform from public.tool_calls where run_id = p_run_id and id = p_call_id and status = 'pending';
  perform private.require(found, 'This call is not waiting for approval.', 'PT410');
  update public.runs set status = 'awaiting_approval', waiting_call = p_call_id, attached = p_attached
  where id = p_run_id;
  if p_event is not null then
    perform private.append_event(p_run_id, p_event, false);
  end if;
end $$;

-- Shows a waiting call again, because its target has changed since it was shown.
create function private.show_updated_call(
  p_run_id uuid, p_call_id text, p_changes jsonb, p_target_hash text, p_target_version bigint, p_event json
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.runs
  where id = p_run_id and status = 'awaiting_approval' and waiting_call = p_call_id for no key update;
  if found then
    update public.tool_calls
    set changes = p_changes, target_hash = p_target_hash, target_version = p_target_version
    where run_id = p_run_id and id = p_call_id and status = 'pending';
  end if;
  perform private.require(found, 'This call has already been decided.', 'PT409');
  perform private.append_event(p_run_id, p_event, false);
end $$;

-- Why the caller may not decide the calls of a run: read_only, not_approver, second_person_needed, not_found (another
-- user's run), or '' if they may. By default the user who started the run, directly or by a key, decides.
create function private.approval_refusal_reason_for(p_org_id uuid, p_created_by uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select case
      when me.role = 'viewer' then 'read_only'
      when o.approvers = 'owners' and me.role <> 'owner' then 'not_approver'
      when o.second_person and private.user_of(p_created_by) = private.user_of(auth.uid()) then 'second_person_needed'
      when o.second_person then ''
      when p_created_by = auth.uid() or o.approvers = 'owners'
        or private.user_of(p_created_by) = private.user_of(auth.uid())
        or coalesce(private.role_of(p_org_id, p_created_by) = 'viewer', true) then ''
      else 'not_found'
    end
    from private.my_memberships() as me join public.organisations as o on o.id = me.org_id
    where me.org_id = p_org_id
  ), 'not_found')
$$;

-- For a child run the starter of its root run counts, not the person who approved the call that started it.
create function private.approval_refusal_reason(p_run public.runs) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.approval_refusal_reason_for(
    p_run.org_id, (select created_by from public.runs where id = p_run.root_run_id))
$$;

-- The users of an organisation whose runs the caller may not decide.
create function private.decided_by_others(p_org_id uuid) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select user_id from private.actors
  where org_id = p_org_id and private.approval_refusal_reason_for(p_org_id, user_id) <> ''
$$;

-- Decides a waiting call once, as it was shown (its arguments have the hash `p_hash`). Returns the new status, or null
-- if it was already decided. The rest of the transaction runs the call; private.resume_run continues the run.
create function private.start_decision(
  p_run_id uuid, p_call_id text, p_hash text, p_approved boolean, p_reason text, p_arguments json,
  p_arguments_hash text
) returns text language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_status text := case when p_approved then 'approved' else 'refused' end;
  v_run public.runs;
begin
  select * into v_run from public.runs
  where id = p_run_id and status = 'awaiting_approval' and waiting_call = p_call_id for no key update;
  if not found or private.approval_refusal_reason(v_run) <> '' then
    return null;
  end if;
  update public.tool_calls set
    status = v_status, approved_by = case when p_approved then 'person' end, reason = p_reason,
    decided_by = auth.uid(), decided_at = clock_timestamp(),
    proposed = case when p_arguments is null then null else arguments end,
    arguments = coalesce(p_arguments, arguments), arguments_hash = coalesce(p_arguments_hash, arguments_hash)
  where run_id = p_run_id and id = p_call_id and status = 'pending' and arguments_hash = p_hash;
  if not found then
    return null;
  end if;
  perform set_config('fieldmark.run_id', p_run_id::text, true), set_config('fieldmark.call_id', p_call_id, true);
  return v_status;
end $$;

-- Approves later calls of these tools in a run that waits for the caller. Returns false if a second person must decide.
create function private.approve_later_calls(p_run_id uuid, p_tools text[]) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.runs as r
  set auto_approved_tools = array(select distinct tool from unnest(r.auto_approved_tools || p_tools) as tool order by tool)
  where r.id = p_run_id and r.status = 'awaiting_approval' and private.is_service()
    and r.org_id in (select private.my_writable_org_ids()) and private.approval_refusal_reason(r) = ''
    and not exists (select from public.organisations as o where o.id = r.org_id and o.second_person);
  return found;
end $$;

-- Continues a run after a decision: at once if its CLI is attached and there is capacity, otherwise through the queue.
-- Returns the run's status, or null if it has ended or is not visible.
create function private.resume_run(p_run_id uuid) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
  v_status text := 'queued';
begin
  select * into v_run from public.runs
  where id = p_run_id and status not in ('completed', 'failed', 'cancelled') for no key update;
  if not found or v_run.status <> 'awaiting_approval' then
    return v_run.status;
  end if;
  perform from public.tool_calls where run_id = p_run_id and id = v_run.waiting_call and status = 'pending';
  perform private.require(not found, 'The call that the run waits for has not been decided.', 'PT409');
  if v_run.attached then
    perform private.lock_credit(v_run.org_id);
    if private.count_active_runs(v_run.org_id, p_run_id) <
        coalesce((select max_concurrent_runs from public.credit_limits where org_id = v_run.org_id), 2147483647)
      and not private.is_credit_spent(v_run.org_id) and not private.is_blocked(v_run) then
      v_status := 'running';
    end if;
    perform pg_notify('fieldmark_work', p_run_id::text);
  end if;
  update public.runs set status = v_status, attached = false, consecutive_failures = 0 where id = p_run_id;
  return v_status;
end $$;

-- Records that the worker's CLI is gone. Queues the run if it was decided or its child runs have ended. Returns the status.
create function private.detach_run(p_run_id uuid, p_fencing_token integer) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  select * into v_run from public.runs
  where id = p_run_id and fencing_token = p_fencing_token and status not in ('completed', 'failed', 'cancelled')
  for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
  if v_run.status in ('running', 'awaiting_runs') then
    v_run.status := 'queued';
    if private.has_open_children(p_run_id, v_run.waiting_call) and exists (
      select from public.tool_calls where run_id = p_run_id and id = v_run.waiting_call and status = 'waiting')
    then
      v_run.status := 'awaiting_runs';
    end if;
  end if;
  update public.runs set attached = false, status = v_run.status where id = p_run_id;
  return v_run.status;
end $$;

-- Like detach_run, for a run whose worker seems dead: a new fencing token stops that worker from writing.
create function private.detach_dead_worker(p_run_id uuid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_token integer;
begin
  update public.runs set fencing_token = fencing_token + 1
  where id = p_run_id and attached and status in ('awaiting_approval', 'awaiting_runs')
  returning fencing_token into v_token;
  if found then
    perform private.detach_run(p_run_id, v_token);
  end if;
end $$;

-- child_runs.sql

-- Child runs: a call starts runs and waits for them without a worker. Cancelling a run cancels its child runs.
--
-- Lock order: children before parents, because a run that ends locks its parent after itself.

create function private.has_open_children(p_run_id uuid, p_call_id text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from public.runs
    where parent_run_id = p_run_id and parent_call_id = p_call_id
      and status not in ('completed', 'failed', 'cancelled'))
$$;

-- If no child run is open and no CLI is attached, the run is queued; otherwise private.detach_run does that later.
create function private.await_runs(p_run_id uuid, p_call_id text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_attached boolean;
begin
  select attached or status = 'running' into v_attached from public.runs
  where id = p_run_id and status in ('running', 'awaiting_approval') for no key update;
  perform private.require(found, 'The run has ended, or another worker has taken it over.', 'PT410');
  update public.tool_calls set status = 'waiting' where run_id = p_run_id and id = p_call_id and status = 'approved';
  perform private.require(found, 'This call cannot run: it was not approved, or it has already finished.', 'PT409');
  update public.runs set
    status = case when v_attached or private.has_open_children(p_run_id, p_call_id) then 'awaiting_runs' else 'queued' end,
    waiting_call = p_call_id, attached = v_attached, consecutive_failures = 0
  where id = p_run_id;
  if v_attached then
    perform pg_notify('fieldmark_work', p_run_id::text);
  end if;
end $$;

-- Queues the parent run again when the last child run of its call ends, and reports the progress of a stack's run.
-- Security definer: the caller may have no rights on the parent run.
create function private.wake_parent() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- Locked first: if two children end at the same time, the second one sees the first.
  perform from public.runs where id = old.parent_run_id for no key update;
  perform private.append_event(parent.id, json_build_object(
      'type', 'progress', 'call_id', old.parent_call_id, 'done', count(*) filter (where child.status = 'completed'),
      'failed', count(*) filter (where child.status in ('failed', 'cancelled')),
      'left', count(*) filter (where child.status not in ('completed', 'failed', 'cancelled')),
      'cost', private.cost_of_run(parent.id)))
  from public.runs as parent
  join public.runs as child on child.parent_run_id = parent.id and child.parent_call_id = old.parent_call_id
  where parent.id = old.parent_run_id and parent.stack_id is not null and parent.status = 'awaiting_runs'
  group by parent.id;
  update public.runs set status = 'queued'
  where id = old.parent_run_id and status = 'awaiting_runs' and waiting_call = old.parent_call_id and not attached
    and not private.has_open_children(old.parent_run_id, old.parent_call_id);
  return null;
end $$;

create trigger wake_parent_of_ended after update of status on public.runs for each row when (
    old.parent_run_id is not null and new.status in ('completed', 'failed', 'cancelled') and new.status <> old.status)
  execute function private.wake_parent();
create trigger wake_parent_of_deleted after delete on public.runs for each row when (
    old.parent_run_id is not null and old.status not in ('completed', 'failed', 'cancelled'))
  execute function private.wake_parent();

create function private.tree_of_run(p_run_id uuid) returns uuid[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive tree as (
    select id, 0 as depth from public.runs where id = p_run_id
    union all
    select r.id, tree.depth + 1 from public.runs as r join tree on r.parent_run_id = tree.id
  )
  select coalesce(array_agg(id order by depth, id), '{}') from tree
$$;

-- Cancels a run and all runs below it. Their workers can no longer write. Returns false if the run had already ended.
create function private.cancel_run(p_run_id uuid, p_reason text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_tree uuid[];
  v_run_id uuid;
begin
  -- Repeated after locking: a run may have started another child in between.
  loop
    v_tree := private.tree_of_run(p_run_id);
    for n in reverse cardinality(v_tree)..1 loop
      perform from public.runs where id = v_tree[n] for no key update;
    end loop;
    exit when private.tree_of_run(p_run_id) <@ v_tree;
  end loop;
  perform from public.runs
  where id = p_run_id and status not in ('completed', 'failed', 'cancelled') for no key update;
  if not found then
    return false;
  end if;
  -- Parents first: a cancelled parent is not woken when its children end.
  foreach v_run_id in array v_tree loop
    update public.runs set status = 'cancelled', waiting_call = null, attached = false, error = p_reason,
      error_code = 'cancelled', finished_at = now()
    where id = v_run_id and status not in ('completed', 'failed', 'cancelled');
    continue when not found;
    update public.tool_calls set status = 'refused', approved_by = null, reason = p_reason, decided_by = auth.uid(),
      decided_at = clock_timestamp()
    where run_id = v_run_id and status = 'pending';
    update public.tool_calls set status = 'failed', result = p_reason, code = 'cancelled', finished_at = clock_timestamp()
    where run_id = v_run_id and status = 'waiting';
    perform private.append_event(
      v_run_id,
      json_build_object(
        'type', 'error', 'error', p_reason, 'code', 'cancelled', 'run_id', v_run_id, 'text', p_reason));
    perform pg_notify('fieldmark_work', v_run_id::text);
  end loop;
  return true;
end $$;

-- Cancels the open runs of a user and their keys, or of one key. Does nothing if the organisation is being deleted.
create function private.cancel_runs_of(p_org_id uuid, p_user_id uuid, p_reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from private.organisation_deletions where org_id = p_org_id) then
    return;
  end if;
  perform private.cancel_run(id, p_reason)
  from (
    select r.id from public.runs as r
    where r.org_id = p_org_id and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs')
      and r.created_by in (
        select p_user_id
        union all
        select k.id from public.api_keys as k where k.org_id = p_org_id and k.created_by = p_user_id)
    order by r.parent_run_id nulls first, r.id) as open_run;
end $$;

-- agent_sessions.sql

-- Agent sessions: the transcripts of runs, so that any worker can resume one.

create table public.agent_sessions (
  number bigint generated always as identity primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  session_id text not null check (char_length(session_id) between 1 and 200),
  subpath text not null default '' check (char_length(subpath) <= 500),
  -- The entry's own id, if it has one. A batch that is sent again is stored once.
  uuid text,
  -- json, not jsonb: a transcript may contain \u0000, which jsonb rejects.
  entry json not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create unique index agent_sessions_uuid on public.agent_sessions (org_id, session_id, subpath, uuid)
  where uuid is not null;
create index agent_sessions_of on public.agent_sessions (org_id, session_id, subpath, number);
select private.protect_table('public.agent_sessions', p_service => '{insert}');
grant select, insert (org_id, session_id, subpath, uuid, entry) on public.agent_sessions to authenticated;

create policy "the service reads its members' conversations" on public.agent_sessions
  for select to authenticated using (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Deletes the conversation of a run that ended or was deleted.
create function private.delete_conversation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.agent_sessions
  where org_id = old.org_id and session_id = old.session_id::text;
  return null;
end $$;

create trigger delete_conversation after delete on public.runs
  for each row when (old.session_id is not null) execute function private.delete_conversation();
create trigger delete_conversation_of_ended_run after update of status on public.runs
  for each row when (new.status in ('completed', 'failed', 'cancelled') and old.session_id is not null)
  execute function private.delete_conversation();

-- queue.sql

-- The queue: triggers insert jobs in the transaction that creates the work.
--
-- Fair queueing (start-time): a job's priority is one below the organisation's last waiting job, or the current head of
-- the queue, so organisations alternate. No locks: two concurrent inserts may get the same priority, which is harmless.

-- Default limits of waiting documents and runs per organisation. `fieldmark migrate` writes them from the settings.
create table private.queue_defaults (
  is_singleton boolean primary key default true check (is_singleton),
  runs integer not null default 2000 check (runs >= 0),
  documents integer not null default 2000 check (documents >= 0)
);
insert into private.queue_defaults default values;

-- Limits of single organisations. Written by the database administrator only.
create table public.queue_limits (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  max_waiting_runs integer check (max_waiting_runs >= 0),
  max_waiting_documents integer check (max_waiting_documents >= 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp()
);
select private.protect_table('public.queue_limits', p_members_read => true);

create index runs_queued on public.runs (org_id) where status = 'queued';
create index documents_reading on public.documents (org_id) where status = 'reading';

-- Security definer: also counts runs in other members' threads.
create function private.check_queue_limit(p_org_id uuid, p_table text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_limit integer;
  v_waiting bigint;
begin
  select case p_table
      when 'runs' then coalesce(l.max_waiting_runs, m.runs) else coalesce(l.max_waiting_documents, m.documents) end
  into v_limit
  from private.queue_defaults as m left join public.queue_limits as l on l.org_id = p_org_id;
  select count(*) into v_waiting
  from (
    select from public.runs where p_table = 'runs' and org_id = p_org_id and status = 'queued'
    union all
    select from public.documents where p_table = 'documents' and org_id = p_org_id and status = 'reading'
    limit v_limit + 1) as w;
  perform private.require(
    v_waiting = 0 or v_limit > 0,  -- a retry would not help
    format('The limit of waiting %s of this organisation is 0.', p_table),
    'PT409', 'queue_closed');
  perform private.require(
    v_waiting <= v_limit,
    format('The organisation already has %s waiting %s, the maximum. Try again when some are done.', v_limit, p_table),
    'PT429');
end $$;

create function private.check_queue_limits() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_queue_limit(org_id, tg_table_name) from (select distinct org_id from added) as o;
  return null;
end $$;

create trigger check_queue_limits after insert on public.runs
  referencing new table as added for each statement execute function private.check_queue_limits();
create trigger check_queue_limits after insert on public.documents
  referencing new table as added for each statement execute function private.check_queue_limits();

-- Tables and functions are procrastinate's. A job's lock starts with the organisation id.
create function private.enqueue(p_queue text, p_task text, p_args jsonb, p_lock text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  v_priority integer;
begin
  if to_regprocedure('queue.procrastinate_defer_jobs_v1(queue.procrastinate_job_to_defer_v1[])') is null then
    raise exception 'The job queue is not set up. Run `fieldmark migrate`.' using errcode = 'PT503';
  end if;
  v_priority := least(
    coalesce(
      (select priority from queue.procrastinate_jobs
        where queue_name = p_queue and status = 'doing' order by -priority desc limit 1),
      (select priority from queue.procrastinate_jobs
        where queue_name = p_queue and status = 'todo' order by -priority limit 1),
      0),
    (select priority - 1 from queue.procrastinate_jobs
      where queue_name = p_queue and left(lock, 36) = left(p_lock, 36) and status = 'todo'
      order by 0 - priority desc limit 1));
  perform queue.procrastinate_defer_jobs_v1(
    array[row(p_queue, p_task, v_priority, p_lock, null, p_args, null)::queue.procrastinate_job_to_defer_v1]);
end $$;

-- Records how far a document is read, and notifies watchers of runs that wait for it.
create function private.record_reading(p_document_id uuid, p_pages_read integer, p_pages_to_read integer) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  update public.documents set pages_read = p_pages_read, pages_to_read = p_pages_to_read
  where id = p_document_id and status = 'reading';
  if found then
    perform pg_notify('fieldmark_run_events', id::text)
    from public.runs where document_id = p_document_id and status = 'queued';
  end if;
end $$;

-- Claims the next job of a queue for a worker. If all its p_slots are taken, one more is for an organisation
-- without a running job. The plan is forced, because the planner's statistics are of empty tables; each order
-- matches exactly one index.
create function private.claim_job(p_queue text, p_worker_id bigint, p_slots integer)
returns table (
  id bigint, status text, task_name text, priority integer, lock text, queueing_lock text, args jsonb,
  scheduled_at timestamptz, queue_name text, attempts integer, worker_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  v_running text[] := array(
    select left(j.lock, 36) from queue.procrastinate_jobs as j
    where j.worker_id = p_worker_id and j.status = 'doing');
  v_org text := '';
begin
  if cardinality(v_running) > p_slots then
    return;
  elsif cardinality(v_running) < p_slots then
    v_running := '{}';
  end if;
  -- Whether another organisation waits: one step per active organisation, however many jobs wait.
  while v_org = any (v_running) or v_org = '' loop
    v_org := (
      select left(j.lock, 36) from queue.procrastinate_jobs as j
      where j.queue_name = p_queue and j.status = 'todo' and left(j.lock, 36) > v_org
      order by left(j.lock, 36) limit 1);
  end loop;
  if v_org is null then
    return;
  end if;
  return query
    update queue.procrastinate_jobs as taken set status = 'doing', worker_id = p_worker_id
    where taken.id = (
      select j.id from queue.procrastinate_jobs as j
      where j.queue_name = p_queue and j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= now())
        and left(j.lock, 36) <> all (v_running)
        and not exists (
          select from queue.procrastinate_jobs as other where other.lock = j.lock and other.status = 'doing')
        and j.id = (
          select first.id from queue.procrastinate_jobs as first
          where first.lock = j.lock and first.status = 'todo' order by -first.priority, first.id limit 1)
      order by -j.priority, j.id limit 1 for update skip locked)
    returning taken.id, taken.status::text, taken.task_name::text, taken.priority, taken.lock,
      taken.queueing_lock, taken.args, taken.scheduled_at, taken.queue_name::text, taken.attempts, taken.worker_id;
end $$;

create function private.enqueue_execution(p_run public.runs) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform private.enqueue(
    case when p_run.background then 'background' else 'runs' end, 'execute_run',
    jsonb_build_object('run_id', p_run.id), p_run.lock_key);
end $$;

-- Security definer, like the functions below: the writer of a row may have no privileges on the queue.
create function private.enqueue_reading() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.enqueue(
    'documents', 'read_document', jsonb_build_object('document_id', new.id), new.org_id || '/document/' || new.id);
  return null;
end $$;

-- Queues a document to be read from a decrypted copy. Returns whether it was waiting for its password.
create function private.queue_unlocked_copy(p_document_id uuid, p_unlocked_path text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
begin
  update public.documents set status = 'reading', error = null, error_code = null, unlocked_path = p_unlocked_path,
    pages_read = null, pages_to_read = null
  where id = p_document_id and status = 'failed' and error_code = 'password'
    and org_id in (select private.my_writable_org_ids()) and private.is_service()
  returning org_id into v_org;
  if v_org is not null then
    perform private.check_queue_limit(v_org, 'documents');
  end if;
  return v_org is not null;
end $$;

-- A new run waits until its document is read. A run without a document, or one queued again, starts at once.
create function private.enqueue_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_document public.documents;
begin
  if new.document_id is null or tg_op = 'UPDATE' then
    perform private.enqueue_execution(new);
    return null;
  end if;
  -- The share lock decides the race with a reading that ends now: one of the two transactions sees the other.
  select * into v_document from public.documents where id = new.document_id for share;
  perform private.require(v_document.status is distinct from 'failed', v_document.error, 'PT409', 'document_failed');
  if v_document.status = 'ready' then
    perform private.enqueue_execution(new);
  end if;
  return null;
end $$;

create function private.release_waiting_runs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_run public.runs;
begin
  for v_run in
    select * from public.runs where document_id = new.id and status = 'queued' order by created_at, id
  loop
    if new.status = 'ready' then
      perform private.enqueue_execution(v_run);
    else
      perform private.fail_run(v_run.id, new.error, 'document_failed');
    end if;
  end loop;
  return null;
end $$;

create trigger enqueue_reading after insert on public.documents
  for each row when (new.status = 'reading') execute function private.enqueue_reading();
create trigger enqueue_reading_again after update of status on public.documents
  for each row when (old.status <> 'reading' and new.status = 'reading') execute function private.enqueue_reading();
create trigger release_waiting_runs after update of status on public.documents
  for each row when (old.status = 'reading' and new.status <> 'reading') execute function private.release_waiting_runs();
create trigger enqueue_run after insert on public.runs
  for each row when (new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_again after update of status on public.runs
  for each row when (old.status <> 'queued' and new.status = 'queued') execute function private.enqueue_run();
create trigger enqueue_released after update of waiting_for_capacity_since on public.runs
  for each row when (old.waiting_for_capacity_since is not null and new.waiting_for_capacity_since is null and old.status = 'queued' and new.status = 'queued')
  execute function private.enqueue_run();

-- json.sql

-- JSON paths: names, values at a path, and differences between two documents. Pure functions.

-- The name of a key below a parent: `a` + b → `a.b`. A key that could not be parsed back is quoted: `["a.b"]`.
-- Same rules as fieldmark.domain.paths.
create function private.child_name(p_parent text, p_key text) returns text
language sql immutable set search_path = pg_catalog, pg_temp return
  case
    when p_key ~ '^[^].["\\\u0001-\u0020\u007f]+( [^].["\\\u0001-\u0020\u007f]+)*$'
      then case when p_parent = '' then p_key else p_parent || '.' || p_key end
    else p_parent || '[' || to_jsonb(p_key)::text || ']'
  end;

-- All nodes below the root, containers included, at which two documents differ; null for a missing node. Descends only
-- into nodes that differ, so a change of one field costs the same in a large document. Compares text, because jsonb treats
-- 12.5 and 12.50 as equal. Stops at the bounds of private.check_json:
-- beyond them a long key would be repeated for each child.
create function private.changes(p_old jsonb, p_new jsonb)
returns table (path text[], steps text, name text, old jsonb, new jsonb)
language sql immutable set search_path = pg_catalog, pg_temp as $$
  with recursive node as (
    select array[]::text[] as path, '' as steps, '' as name, p_old as old, p_new as new
    union all
    select
      node.path || child.key,
      node.steps || child.step,
      case child.step
        when 'k' then private.child_name(node.name, child.key)
        else node.name || '[' || child.key || ']'
      end,
      child.old, child.new
    from node
    cross join lateral (
      select key, 'k' as step, o.value as old, n.value as new
      from jsonb_each(case jsonb_typeof(node.old) when 'object' then node.old else '{}'::jsonb end) as o
      full join jsonb_each(case jsonb_typeof(node.new) when 'object' then node.new else '{}'::jsonb end) as n using (key)
      where o.value::text is distinct from n.value::text
      union all
      select (position - 1)::text, 'i', o.value, n.value
      from jsonb_array_elements(case jsonb_typeof(node.old) when 'array' then node.old else '[]'::jsonb end)
        with ordinality as o (value, position)
      full join jsonb_array_elements(case jsonb_typeof(node.new) when 'array' then node.new else '[]'::jsonb end)
        with ordinality as n (value, position) using (position)
      where o.value::text is distinct from n.value::text
    ) as child
    where length(node.steps) <= 32 and char_length(node.name) <= 1000
  )
  select path, steps, name, old, new from node where steps <> ''
$$;

create function private.nodes(p_doc jsonb) returns table (path text[], steps text, name text, value jsonb)
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select path, steps, name, new from private.changes(null, p_doc) $$;

create function private.is_leaf(p_value jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return jsonb_typeof(p_value) not in ('object', 'array') or p_value in ('{}'::jsonb, '[]'::jsonb);

-- Rejects JSON that is costly to store: more than 4 MB, 32 levels or 100,000 values, and numbers of more
-- than 100 digits a side (1e131071 has eight characters, and 131,072 when it is read back). With p_exact also fractions
-- with more digits than a double holds: programs that read JSON would lose some.
create function private.check_json(p_value jsonb, p_what text, p_exact boolean default false) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp set extra_float_digits = 1 as $$
declare
  v_fault text := case
    when pg_column_size(p_value) > 4194304 then ' may not exceed 4 MB.'
    when jsonb_path_exists(p_value, 'strict $.**{33}') then ' may be nested at most 32 deep.'
    -- (jsonb_path_query would take quadratic time.)
    when jsonb_array_length(jsonb_path_query_array(p_value, 'strict $.**.type()')) > 100000
      then ' may hold at most 100,000 values.'
    when exists (
      select from jsonb_array_elements(jsonb_path_query_array(p_value, 'strict $.** ? (@.type() == "number")')) as number
      where abs(number::numeric) >= 1e100 or scale(number::numeric) > 100
    ) then ': a number may have at most 100 digits before and after its point.'
    when p_exact and exists (
      select from jsonb_array_elements(jsonb_path_query_array(p_value, 'strict $.** ? (@.type() == "number")')) as number
      where number::numeric <> trunc(number::numeric) and number::text::float8::text::numeric <> number::numeric
    ) then ': a number has more digits than a JSON number keeps. Write it as text.'
  end;
begin
  perform private.require(v_fault is null, p_what || v_fault);
end $$;

-- Returns the path as a plain list of 1 to 32 steps. (A SQL array may have two dimensions, or start at index 0.)
create function private.checked_path(p_path text[]) returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_fault text := case
    when coalesce(cardinality(p_path), 0) = 0 then 'The path is empty.'
    when array_ndims(p_path) > 1 or array_position(p_path, null) is not null
      then 'A path is a list of texts; a step of this one is not a text.'
    when cardinality(p_path) > 32 then 'A path may have at most 32 steps.'
    when (select sum(char_length(step)) from unnest(p_path) as step) > 1000
      then 'The path of a field may have at most 1,000 characters.'
  end;
begin
  perform private.require(v_fault is null, v_fault);
  return array(select step from unnest(p_path) with ordinality as s (step, n) order by n);
end $$;

-- Sets a value at a path by jsonb_set, after the checks that it lacks (it ignores a missing parent, appends for
-- [999999999], and prepends for [-999]). Missing objects and lists are created; a null counts as missing.
create function private.set_at_path(p_doc jsonb, p_path text[], p_value jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_around jsonb := p_doc;
  v_around_name text := '';
  v_name text;
  v_key text;
begin
  for v_depth in 1..cardinality(p_path) loop
    v_key := p_path[v_depth];
    -- A missing container becomes a list if its first step is 0, otherwise an object.
    if v_around is null or v_around = 'null' then
      if v_key ~ '^[0-9]+$' and v_key <> '0' then
        raise exception
          'Path %: there is no value at % yet. A list starts with [0]; for an object with the key % write % as a whole.',
          v_around_name || '[' || v_key || ']', v_around_name, v_key, v_around_name using errcode = 'PT422';
      end if;
      v_around := case when v_key = '0' then jsonb '[]' else jsonb '{}' end;
      p_doc := jsonb_set(p_doc, p_path[:v_depth - 1], v_around);
    end if;
    case jsonb_typeof(v_around)
      when 'object' then
        v_name := private.child_name(v_around_name, v_key);
      when 'array' then
        v_name := v_around_name || '[' || v_key || ']';
        if v_key !~ '^(0|[1-9][0-9]{0,8})$' then
          raise exception 'Path %: % is a list. Write an index in brackets, from [0] to [%], the next free one.',
            v_name, v_around_name, jsonb_array_length(v_around) using errcode = 'PT422';
        elsif v_key::integer > jsonb_array_length(v_around) then
          raise exception 'Path % is past the end of %: the next item is [%].',
            v_name, v_around_name, jsonb_array_length(v_around) using errcode = 'PT422';
        end if;
      else
        raise exception 'Path %: % already contains the value %, so there can be no value below it.',
          private.child_name(v_around_name, v_key), v_around_name, left(v_around::text, 80) using errcode = 'PT422';
    end case;
    v_around := p_doc #> p_path[:v_depth];
    v_around_name := v_name;
  end loop;
  return jsonb_set(p_doc, p_path, p_value);
end $$;

create function private.path_name(p_doc jsonb, p_path text[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_name text := '';
  v_step text;
begin
  foreach v_step in array p_path loop
    case jsonb_typeof(p_doc)
      when 'object' then
        v_name := private.child_name(v_name, v_step);
        p_doc := p_doc -> v_step;
      when 'array' then
        if v_step !~ '^(0|[1-9][0-9]{0,8})$' then
          return null;
        end if;
        v_name := v_name || '[' || v_step || ']';
        p_doc := p_doc -> v_step::integer;
      else
        return null;
    end case;
    if p_doc is null then
      return null;
    end if;
  end loop;
  return v_name;
end $$;

-- Merges objects key by key. Every other value, lists included, replaces the old one.
create function private.merge(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when jsonb_typeof(p_old) = 'object' and jsonb_typeof(p_new) = 'object' then
      p_old || coalesce(
        (
          select jsonb_object_agg(
            key, case jsonb_typeof(value) when 'object' then private.merge(p_old -> key, value) else value end)
          from jsonb_each(p_new)
        ), '{}'::jsonb)
    else p_new
  end
$$;

-- Entries by name -----------------------------------------------------------------------------------------------------
-- Scores, evidence and locks are objects keyed by path name.

-- The entries of a change: those that differ, and those in `p_named`.
create function private.changed_entries(p_before jsonb, p_now jsonb, p_named jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, n.value), '{}')
  from jsonb_each(p_now) as n left join jsonb_each(p_before) as b using (key)
  where n.value is distinct from b.value or key in (select jsonb_array_elements_text(p_named))
$$;

-- The scores in the shape of the fields: {"vendor": {"name": 0.9}}. (The function is called for containers only: a call
-- for each value would take three times as long.)
create function private.nested_scores(p_fields jsonb, p_scores jsonb, p_name text default '') returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if jsonb_typeof(p_fields) = 'array' then
    return (
      select jsonb_agg(case
        when jsonb_typeof(value) in ('object', 'array') then private.nested_scores(value, p_scores, name)
        else p_scores -> name end order by n)
      from jsonb_array_elements(p_fields) with ordinality as item (value, n)
      cross join lateral (select p_name || '[' || n - 1 || ']' as name) as named);
  end if;
  return (
    select jsonb_object_agg(key, case
      when jsonb_typeof(value) in ('object', 'array') then private.nested_scores(value, p_scores, name)
      else p_scores -> name end)
    from jsonb_each(p_fields)
    cross join lateral (select private.child_name(p_name, key) as name offset 0) as named);
end $$;

-- The entries that remain valid because their values did not change.
create function private.unchanged_entries(p_before jsonb, p_now jsonb, p_stale text[]) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_before)
  where key in (select jsonb_object_keys(p_now)) and key not in (select unnest(p_stale))
$$;

-- The entries of a name and of the names below it. (A key with a dot or a bracket is quoted.)
create function private.entries_under(p_entries jsonb, p_name text, p_alone boolean default false) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if p_alone then
    return case when p_entries ? p_name then jsonb_build_object(p_name, p_entries -> p_name) else '{}' end;
  end if;
  return (
    select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_entries)
    where key = p_name or starts_with(key, p_name || '.') or starts_with(key, p_name || '['));
end $$;

-- Moves entries with their list items: one up after an item that is removed, or one down from an item that comes back.
create function private.shift_entries(
  p_now jsonb, p_before jsonb, p_was jsonb, p_path text[], p_is_back boolean default false
) returns jsonb language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  v_list_path text[] := p_path[:cardinality(p_path) - 1];
  v_opening text;
  v_index integer;
begin
  if jsonb_typeof(p_was #> v_list_path) <> 'array' then
    return p_now;
  end if;
  v_opening := private.path_name(p_was, v_list_path) || '[';
  v_index := p_path[cardinality(p_path)]::integer;
  return (
    with item as (
      select key, value, substring(substr(key, length(v_opening) + 1) from '^([0-9]{1,9})\]')::integer as index
      from jsonb_each(p_before)
      where starts_with(key, v_opening)
    )
    select coalesce(jsonb_object_agg(key, value), '{}'::jsonb) from (
      select key, value from jsonb_each(p_now) where not starts_with(key, v_opening)
      union all
      select
        case when index > v_index or p_is_back and index = v_index
          then v_opening || (index + case when p_is_back then 1 else -1 end) || substr(key, length(v_opening || index::text) + 1)
          else key
        end, value
      from item
      where index <> v_index or p_is_back
    ) as kept);
end $$;

-- extraction_authors.sql

-- Authors of a write: a user, or an agent's call on behalf of a user.

-- Returns the user who approved the call of this transaction; null if it was approved by policy.
create function private.approving_user() returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select decided_by from public.tool_calls
  where run_id = private.this_run() and id = private.this_call() and approved_by = 'person'
$$;

create function private.message_author() returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select run.created_by from public.runs as run
  join private.agent_tasks as t on t.agent = run.agent and t.task = run.task
  where run.id = private.this_run() and t.is_message
$$;

-- The leaves (or `document_type`) that the author's message names. The service sets them for this transaction.
create function private.paths_allowed_by_message() returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case
    when private.message_author() is null then '{}'
    else array(
      select jsonb_array_elements_text(coalesce(nullif(current_setting('fieldmark.paths_in_message', true), ''), '[]')::jsonb))
  end
$$;

-- extraction_journal.sql

-- The journal of extractions: every change of a leaf, recorded by a trigger.

create table public.extraction_journal (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  extraction_id uuid not null,
  version integer not null,
  -- A leaf is a scalar, or an empty object or list. `steps`: a letter a step, k for a key and i for an index.
  path text[] not null,
  steps text not null check (steps ~ '^[ki]+$'),
  -- SQL null: no leaf at this path. (JSON null is a value.)
  old jsonb,
  new jsonb,
  actor text not null check (actor in ('agent', 'user')),
  run_id uuid,
  call_id text,
  created_by uuid,
  -- The user whose message names the value that an agent wrote.
  dictated_by uuid,
  created_at timestamptz not null default now(),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create index extraction_journal_extraction_id on public.extraction_journal (extraction_id, version, id);
select private.protect_table('public.extraction_journal', p_members_read => true);

create function private.keep_journal() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.extraction_journal
    (org_id, extraction_id, version, path, steps, old, new, actor, run_id, call_id, created_by, dictated_by)
  select new.org_id, new.id, new.version, c.path, c.steps,
    case when private.is_leaf(c.old) then c.old end, case when private.is_leaf(c.new) then c.new end,
    case when private.is_agent() then 'agent' else 'user' end, private.this_run(), private.this_call(), auth.uid(),
    case when c.name = any ((select private.paths_allowed_by_message())::text[])
      then (select private.message_author()) end
  from private.changes(case tg_op when 'UPDATE' then old.extracted_fields else '{}'::jsonb end, new.extracted_fields) as c
  where private.is_leaf(c.old) or private.is_leaf(c.new)
  order by c.path;
  return null;
end $$;

create trigger keep_journal_of_insert after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.keep_journal();
create trigger keep_journal_of_update after update on public.extractions
  for each row when (new.version <> old.version) execute function private.keep_journal();

-- The fields at a version: the latest leaf of each path, then level by level the objects and lists that held them.
create type private.node as (path text[], steps text, value jsonb);

create function private.fields_at(p_extraction_id uuid, p_version integer) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_nodes private.node[];
  v_level integer;
begin
  select array_agg(row(latest.path, latest.steps, latest.new)::private.node), max(length(latest.steps))
  into v_nodes, v_level
  from (
    select distinct on (path, steps) path, steps, new
    from public.extraction_journal
    where extraction_id = p_extraction_id and version <= p_version
    order by path, steps, version desc, id desc
  ) as latest
  where latest.new is not null;
  while v_level > 0 loop
    select array_agg(row(up.path, up.steps, up.value)::private.node) into v_nodes
    from (
      select path, steps, value from unnest(v_nodes) where length(steps) < v_level
      union all
      select path[:v_level - 1], left(steps, v_level - 1),
        case right(steps, 1)
          when 'i' then jsonb_agg(value order by lpad(path[v_level], 9, '0') collate "C")
          else jsonb_object_agg(path[v_level], value)
        end
      from unnest(v_nodes)
      where length(steps) = v_level
      group by path[:v_level - 1], left(steps, v_level - 1), right(steps, 1)
    ) as up;
    v_level := v_level - 1;
  end loop;
  return coalesce(v_nodes[1].value, '{}');
end $$;

-- extraction_locks.sql

-- Locks of extractions: an agent may change a value that a user set only if that user's message says so.

-- The locks that apply to this write. A user: none. An agent: all but those of the user it writes for.
create function private.binding_locks(p_locks jsonb) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(array_agg(key), '{}') from jsonb_each(p_locks)
  where (select private.is_agent())
    and value ->> 'by' <> coalesce((select private.approving_user())::text, '')
    and not (
      key = any ((select private.paths_allowed_by_message())::text[]) and value ->> 'by' = (select private.message_author())::text)
$$;

-- List items in which a value is replaced or removed, so that remaining values may now belong to a different row.
-- Also how many items and leaves of the list changed. Ignores blanks that are filled, and `p_kept`.
create function private.moved_items(p_old jsonb, p_new jsonb, p_kept text[] default '{}')
returns table (path text[], name text, old jsonb, items bigint, leaves bigint)
language sql immutable set search_path = pg_catalog, pg_temp as $$
  with change as materialized (
    select * from private.changes(p_old, p_new)
  ), below as (
    select c.path[:n] as path, left(c.steps, n) as steps, count(*) as leaves, bool_or(
      private.is_leaf(c.old) and c.old not in ('null', '""', '{}', '[]') and c.old is distinct from c.new
      and c.name not in (select unnest(p_kept))) as gives_way
    from change as c
    cross join lateral generate_series(1, length(c.steps)) as n
    where substr(c.steps, n, 1) = 'i' and (private.is_leaf(c.old) or private.is_leaf(c.new))
    group by c.path[:n], left(c.steps, n)
  ), item as (
    select path, c.name, c.old, gives_way, count(*) over list as items, sum(leaves) over list as leaves
    from below
    join change as c using (path, steps)
    window list as (partition by path[:cardinality(path) - 1], left(steps, -1))
  )
  select path, name, old, items, leaves::bigint from item where gives_way
$$;

-- The parts of a change that a lock blocks, in an order in which they can be restored:
-- - a single leaf;
-- - a whole list, if anything else in it would change: an old cell must not end up in
--   a new row;
-- - a whole object or list that would be removed with a locked leaf in it;
-- - the outermost container, for more than 500 leaves.
create function private.blocked_paths(p_was public.extractions, p_wanted jsonb, p_removed text[])
returns table (path text[], name text, old jsonb, new jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_binding text[] := private.binding_locks(p_was.locks);
  v_name text;
begin
  if cardinality(v_binding) = 0 then
    return;
  end if;
  if p_removed is not null then
    v_name := private.path_name(p_was.extracted_fields, p_removed);
    if private.entries_under(p_was.locks, v_name) ?| v_binding then
      return query select p_removed, v_name, p_was.extracted_fields #> p_removed, null::jsonb;
    end if;
    return;
  end if;
  return query
    with change as materialized (
      select * from private.changes(p_was.extracted_fields, p_wanted)
    ), prefix as materialized (
      -- Each change with the containers around it. (Without values: otherwise the whole document would be
      -- repeated for each leaf.)
      select below.name as below, length(below.steps) as depth, above.name, length(above.steps) as level,
        jsonb_typeof(above.old) = 'array' as list,
        jsonb_typeof(above.old) is distinct from jsonb_typeof(above.new) as replaced
      from change as below
      cross join lateral generate_series(1, length(below.steps)) as n
      join change as above on above.path = below.path[:n] and above.steps = left(below.steps, n)
    ), shifted as (
      -- Items with a locked leaf that may end up in another row, because other items of the list change too.
      select distinct item.name, left(item.name, -length('[' || item.path[cardinality(item.path)] || ']')) as list
      from private.moved_items(p_was.extracted_fields, p_wanted, v_binding) as item
      cross join lateral private.nodes(item.old) as node
      join unnest(v_binding) as lock
        on lock = item.name || case when starts_with(node.name, '[') then '' else '.' end || node.name
      where item.items > 1
    ), touched as (
      select name from change where name in (select unnest(v_binding))
      union
      select name from shifted
    ), free as (
      select name from change
      where (private.is_leaf(old) or private.is_leaf(new))
        and name not in (select name from prefix where below in (select name from touched))
        and name not in (select below from prefix where name in (select name from touched))
    ), mixed as (
      select name from prefix
      where below in (select name from free) and level < depth and list
      union
      select list from shifted
    ), kept as (
      select distinct on (below) name
      from prefix
      where below in (select name from touched)
        and (
          name = below or name in (select name from mixed) or replaced
          -- Each path is restored in the whole document.
          or (level = 1 and (select count(*) from touched) > 500))
      order by below, level
    )
    select path, name, old, new from change where name in (select name from kept)
    order by length(steps), lpad(path[length(steps)], 9, '0') collate "C";
end $$;

-- A lock of a user. `p_was`: the value that an agent had written. `p_is_whole`: the user decided about a list, an object or
-- a call, and so did not look at each of its values.
create function private.lock_of(p_by uuid, p_was jsonb, p_is_whole boolean default false) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('by', p_by, 'at', now())
    || case when p_was not in ('null', '""', '{}', '[]') then jsonb_build_object('was', p_was) else '{}' end
    || case when p_is_whole then jsonb '{"whole": true}' else '{}' end
$$;

-- The locks after a change: the author locks the changed leaves; locks of removed leaves are dropped. A user who approves
-- a call locks the agent's values, except those that they edited.
create function private.locks_after(p_locks jsonb, p_old jsonb, p_new jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_by uuid := case when private.is_agent() then private.approving_user() else auth.uid() end;
  v_message_paths text[] := private.paths_allowed_by_message();
  v_message_author uuid := private.message_author();
  -- The arguments of this call, if the user who approved it edited them.
  v_before_edit jsonb := case when v_by is not null and private.is_agent() then (
    select proposed::jsonb from public.tool_calls where run_id = private.this_run() and id = private.this_call()) end;
  v_is_whole boolean := v_by is not null and private.is_agent() and (
    select count(*) > 1 from private.changes(p_old, p_new) as c where private.is_leaf(c.new));
begin
  return (
    select
      p_locks - coalesce(array_agg(name) filter (where private.is_leaf(c.new) is not true), '{}')
      || coalesce(
        jsonb_object_agg(name, private.lock_of(author, case
          when v_by is null or not private.is_agent() then case when p_locks ? name then p_locks -> name -> 'was'
            when private.is_leaf(c.old) then c.old end
          when v_before_edit is null or jsonb_path_exists(v_before_edit, '$.** ? (@ == $new)', jsonb_build_object('new', c.new))
            then c.new
          else v_before_edit -> 'value' end, v_is_whole))
          filter (where private.is_leaf(c.new) and author is not null), '{}')
    from private.changes(p_old, p_new) as c
    cross join lateral (select coalesce(v_by, case when c.name = any (v_message_paths) then v_message_author end) as author) as a);
end $$;

-- The user's locks on unchanged values that they wrote again: writing a value confirms it.
create function private.locks_at(p_fields jsonb, p_path text[]) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(leaf.name, private.lock_of(auth.uid(), leaf.value, leaf.name <> above)), '{}')
  from private.path_name(p_fields, p_path) as above
  cross join lateral (
    select above as name, p_fields #> p_path as value
    union all
    select above || case when starts_with(node.name, '[') then '' else '.' end || node.name, node.value
    from private.nodes(p_fields #> p_path) as node
  ) as leaf
  where private.is_leaf(leaf.value) and auth.uid() is not null
$$;

-- extraction_proposals.sql

-- Proposals: changes by an agent that a lock blocked. A user decides them.

create table public.extraction_proposals (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  extraction_id uuid not null,
  -- A locked leaf, or the outermost list or object that could only change together with one; and its name.
  path text[] not null,
  name text not null,
  -- `old` is the current value while the proposal is pending or rejected. SQL null as `new`: remove the value.
  old jsonb not null,
  new jsonb,
  -- Keyed by path name, as in the extraction, for the path and the values below it.
  confidence_scores jsonb not null,
  evidence jsonb not null,
  -- superseded: replaced by a newer proposal, or the current value has changed since.
  status text not null default 'pending' check (status in ('pending', 'accepted', 'rejected', 'superseded')),
  run_id uuid,
  call_id text,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  decided_by uuid,
  decided_at timestamptz,
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index extraction_proposals_extraction_id on public.extraction_proposals (extraction_id, name);
create index extraction_proposals_pending on public.extraction_proposals (org_id, extraction_id) where status = 'pending';
select private.protect_table('public.extraction_proposals', p_members_read => true);

-- Stores a blocked change, unless the same proposal is pending or was rejected for the current value.
create function private.propose(
  p_extraction public.extractions, p_path text[], p_name text, p_old jsonb, p_new jsonb, p_scores jsonb, p_evidence jsonb
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if exists (
    select from public.extraction_proposals
    where extraction_id = p_extraction.id and name = p_name and status in ('pending', 'rejected')
      and new::text is not distinct from p_new::text
  ) then
    return;
  end if;
  update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
  where extraction_id = p_extraction.id and status = 'pending'
    and (name = p_name or starts_with(name, p_name || '.') or starts_with(name, p_name || '['));
  insert into public.extraction_proposals
    (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, run_id, call_id)
  values (
    p_extraction.org_id, p_extraction.id, p_path, p_name, p_old, p_new, p_scores, p_evidence, private.this_run(),
    private.this_call());
end $$;

-- After a change, proposals move with their list items, also if an item comes back (`p_is_back`). Those whose value or row may have changed are superseded.
create function private.keep_proposals(p_now public.extractions, p_was jsonb, p_removed text[], p_is_back boolean, p_decided text[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_step integer := cardinality(p_removed);
  v_by integer := case when p_is_back then 1 else -1 end;
begin
  if jsonb_typeof(p_was #> p_removed[:v_step - 1]) = 'array' then
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step] = p_removed and not p_is_back;
    update public.extraction_proposals set
      path = path[:v_step - 1] || (path[v_step]::integer + v_by)::text || path[v_step + 1:],
      name = private.path_name(
        p_now.extracted_fields, path[:v_step - 1] || (path[v_step]::integer + v_by)::text || path[v_step + 1:]),
      confidence_scores = private.shift_entries(confidence_scores, confidence_scores, p_was, p_removed, p_is_back),
      evidence = private.shift_entries(evidence, evidence, p_was, p_removed, p_is_back)
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step - 1] = p_removed[:v_step - 1]
      and case when path[:v_step - 1] = p_removed[:v_step - 1] then path[v_step]::integer >= p_removed[v_step]::integer + (v_by = -1)::integer end;
  elsif p_removed is null and exists (
    select from public.extraction_proposals where extraction_id = p_now.id and status in ('pending', 'rejected')
  ) then
    -- A change of a single leaf, or an accepted proposal, does not turn an item into another row.
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where id in (
      select proposal.id
      from public.extraction_proposals as proposal
      cross join lateral generate_series(1, cardinality(proposal.path) - 1) as n
      join private.moved_items(p_was, p_now.extracted_fields, p_decided) as item on item.path = proposal.path[:n]
      where proposal.extraction_id = p_now.id and proposal.status in ('pending', 'rejected') and item.leaves > 1);
  end if;
  update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
  where extraction_id = p_now.id and status in ('pending', 'rejected') and (
    private.path_name(p_now.extracted_fields, path) is distinct from name
    or (p_now.extracted_fields #> path)::text <> old::text);
end $$;

-- extraction_functions.sql

-- Functions that write fields, also RPCs for a Supabase front end. Security invoker: the caller's policies apply.

create function private.check_is_caller(p_user_id uuid) returns void
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.require(
    coalesce(p_user_id = auth.uid(), true), '`p_user_id` is another user. Leave it out, or send your own id.', 'PT403')
$$;

create function private.locked_extraction(p_extraction_id uuid) returns public.extractions
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions;
begin
  select * into v_row from public.extractions where id = p_extraction_id for no key update;
  perform private.check_found(found, 'extraction');
  return v_row;
end $$;

-- Writes fields with scores and evidence in one update: sets the values at the paths `p_set`, or removes those at
-- `p_removed`, or brings the item back that the version `p_back` removed. Returns the fields as `value`, the version, the changed leaves, and the blocked changes as `proposed`.
create function private.write_fields(
  p_was public.extractions, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}',
  p_removed text[] default null, p_set jsonb default null, p_decided text[] default null, p_back integer default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_now public.extractions;
  v_changed jsonb;
  v_proposed jsonb;
begin
  p_confidences := coalesce(p_confidences, '{}');
  p_evidence := coalesce(p_evidence, '{}');
  perform private.require(
    jsonb_typeof(p_confidences) = 'object' and jsonb_typeof(p_evidence) = 'object',
    'Confidences and evidence must be objects keyed by path.');
  perform set_config('fieldmark.change', jsonb_strip_nulls(jsonb_build_object(
    'confidences', to_jsonb(array(select jsonb_object_keys(p_confidences))),
    'evidence', to_jsonb(array(select jsonb_object_keys(p_evidence))),
    'removed', to_jsonb(p_removed), 'back', p_back, 'set', p_set, 'decided', to_jsonb(p_decided)))::text, true);
  update public.extractions set extracted_fields = p_fields, confidences = confidences || p_confidences,
    evidence = evidence || p_evidence
  where id = p_was.id
  returning * into v_now;
  perform set_config('fieldmark.change', '', true);
  select coalesce(jsonb_agg(
    case when c.new is null
      then jsonb_build_object('path', c.name, 'value', null, 'confidence', null, 'evidence', null, 'removed', true)
      else jsonb_build_object('path', c.name, 'value', c.new, 'confidence', score.value, 'evidence', proof.value)
    end order by c.path), '[]') into v_changed
  from private.changes(p_was.extracted_fields, v_now.extracted_fields) as c
  left join jsonb_each(v_now.confidences) as score on score.key = c.name
  left join jsonb_each(v_now.evidence) as proof on proof.key = c.name
  where private.is_leaf(c.new) or (c.new is null and private.is_leaf(c.old));
  select jsonb_agg(name) into v_proposed from private.blocked_paths(p_was, p_fields, p_removed);
  return jsonb_strip_nulls(jsonb_build_object('proposed', v_proposed))
    || jsonb_build_object('value', v_now.extracted_fields, 'version', v_now.version, 'changed', v_changed);
end $$;

create function public.save_extraction_fields(
  p_extraction_id uuid, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(jsonb_typeof(p_fields) = 'object', 'Fields must be an object.');
  perform private.check_json(p_fields, 'Fields');
  return private.write_fields(v_was, private.merge(v_was.extracted_fields, p_fields), p_confidences, p_evidence);
end $$;

-- Sets the value at a path. Confidences and evidence are keyed by path name, of the value or of values in it.
-- p_confidence: for the value itself. p_value: null empties the field (PostgREST sends a JSON null as SQL null).
-- p_user_id: the caller, for front ends that send it.
create function public.update_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null,
  p_confidences jsonb default '{}', p_evidence jsonb default '{}', p_user_id uuid default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_path text[] := private.checked_path(p_field_path);
  v_wanted jsonb;
  v_name text;
  v_written jsonb;
begin
  perform private.check_is_caller(p_user_id);
  p_value := coalesce(p_value, 'null');
  -- (NaN is greater than every number, so it is not between any two.)
  perform private.require(
    coalesce(p_confidence between 0 and 1, true),
    format('Confidence must be 0.0 to 1.0, got %s.', left(p_confidence::text, 20)));
  perform private.check_json(p_value, 'A value');
  v_wanted := private.set_at_path(v_was.extracted_fields, v_path, p_value);
  v_name := private.path_name(v_wanted, v_path);
  if p_confidence is not null then
    p_confidences := coalesce(p_confidences, '{}') || jsonb_build_object(v_name, p_confidence);
  end if;
  v_written := private.write_fields(
    v_was, v_wanted, p_confidences, p_evidence, p_set => jsonb_build_array(to_jsonb(v_path)));
  return v_written || jsonb_build_object('path', v_name, 'value', v_written -> 'value' #> v_path);
end $$;

create function public.update_field(
  p_extraction_id uuid, p_field_path text[], p_value jsonb, p_confidence numeric default null, p_user_id uuid default null
) returns jsonb language sql set search_path = pg_catalog, pg_temp as $$
  select public.update_extraction_field(p_extraction_id, p_field_path, p_value, p_confidence, p_user_id => p_user_id)
$$;

-- Sets several values in order, all or none: `p_changes` is [{"path": […], "value": …}, …].
create function public.update_extraction_fields(
  p_extraction_id uuid, p_changes jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_wanted jsonb := v_was.extracted_fields;
  v_change jsonb;
  v_path text[];
  v_set jsonb := jsonb '[]';
begin
  perform private.require(
    case jsonb_typeof(p_changes) when 'array' then jsonb_array_length(p_changes) between 1 and 1000 end,
    'Changes must be a list of 1 to 1000.');
  -- Each change copies the fields.
  perform private.require(
    jsonb_array_length(p_changes)::bigint * octet_length(v_wanted::text || p_changes::text) < 200000000,
    'Too many changes for an extraction of this size. Send fewer per request.');
  for v_change in select value from jsonb_array_elements(p_changes) loop
    perform private.require(
      v_change ? 'value' and jsonb_typeof(v_change -> 'path') = 'array',
      'A change is an object with a path (a list of steps) and a value.');
    v_path := private.checked_path(array(select jsonb_array_elements_text(v_change -> 'path')));
    perform private.check_json(v_change -> 'value', 'A value');
    v_wanted := private.set_at_path(v_wanted, v_path, v_change -> 'value');
    v_set := v_set || jsonb_build_array(to_jsonb(v_path));
  end loop;
  return private.write_fields(v_was, v_wanted, p_confidences, p_evidence, p_set => v_set);
end $$;

create function public.remove_extraction_field(
  p_extraction_id uuid, p_field_path text[], p_user_id uuid default null
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_path text[] := private.checked_path(p_field_path);
  v_name text := private.path_name(v_was.extracted_fields, v_path);
  v_written jsonb;
begin
  perform private.check_is_caller(p_user_id);
  perform private.require(
    v_name is not null, format('There is no value at path %s.', left(array_to_string(v_path, '.'), 200)));
  v_written := private.write_fields(v_was, v_was.extracted_fields #- v_path, p_removed => v_path)
    - '{changed,value}'::text[] || jsonb_build_object('path', v_name);
  if v_written ? 'proposed' then
    return v_written;
  end if;
  return v_written || jsonb_build_object('removed', v_was.extracted_fields #> v_path);
end $$;

create function public.identify_document(p_extraction_id uuid, p_document_type text) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(
    char_length(p_document_type) between 1 and 200, 'The document type must have 1 to 200 characters.');
  update public.extractions set document_type = p_document_type where id = v_row.id returning * into v_row;
  return jsonb_build_object('value', v_row.document_type, 'version', v_row.version);
end $$;

create function public.complete_extraction(p_extraction_id uuid, p_withdraw_to text default null) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_row public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform set_config('fieldmark.change', jsonb_build_object('completed', p_withdraw_to is null)::text, true);
  update public.extractions set status = coalesce(p_withdraw_to, 'completed') where id = v_row.id returning * into v_row;
  perform set_config('fieldmark.change', '', true);
  return jsonb_build_object('value', v_row.status, 'version', v_row.version);
end $$;

create function public.restore_extraction(
  p_extraction_id uuid, p_version integer, p_confidences jsonb default '{}', p_evidence jsonb default '{}'
) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
begin
  perform private.require(
    p_version between 0 and v_was.version,
    format('There is no version %s: this extraction has versions 0 to %s.', p_version, v_was.version));
  return private.write_fields(v_was, private.fields_at(v_was.id, p_version), p_confidences, p_evidence, p_back => p_version + 1);
end $$;

create function public.unlock_extraction_field(p_extraction_id uuid, p_field_path text[]) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_path text[] := private.checked_path(p_field_path);
  v_name text := private.path_name(v_was.extracted_fields, v_path);
  v_locks text[] := array(
    select key from jsonb_object_keys(private.entries_under(v_was.locks, v_name)) as key order by key);
begin
  perform private.require(
    v_name is not null and cardinality(v_locks) > 0,
    format('There is no lock at path %s.', left(coalesce(v_name, array_to_string(v_path, '.')), 200)));
  perform private.require(not private.is_agent(), 'Only a user can remove a lock.');
  perform set_config('fieldmark.change', jsonb_build_object('unlocked', v_name)::text, true);
  update public.extractions set locks = locks - v_locks where id = v_was.id returning * into v_row;
  perform set_config('fieldmark.change', '', true);
  return jsonb_build_object('path', v_name, 'unlocked', to_jsonb(v_locks), 'version', v_row.version);
end $$;

-- Decides proposals, each once, all or none. Accepted values are written as the user's, in one version; each item
-- removed from a list adds a version. Security definer: proposals have no write privileges.
create function public.decide_extraction_proposals(p_extraction_id uuid, p_accepted uuid[], p_rejected uuid[] default '{}')
returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_was public.extractions;
  v_one public.extraction_proposals;
  v_id uuid;
  v_fields jsonb;
  v_scores jsonb := jsonb '{}';
  v_evidence jsonb := jsonb '{}';
  v_names text[] := array[]::text[];
begin
  select * into v_was from public.extractions
  where id = p_extraction_id and org_id in (select private.my_writable_org_ids()) for no key update;
  perform private.check_found(found, 'extraction');
  perform private.require(not private.is_agent(), 'Only a user can decide proposals.');
  perform private.require(
    cardinality(p_accepted || p_rejected) between 1 and 1000, 'One call decides 1 to 1,000 proposals.');
  loop
    update public.extraction_proposals set status = 'accepted', decided_by = auth.uid(), decided_at = clock_timestamp()
    where id = (
      select id from public.extraction_proposals
      where id = any (p_accepted) and extraction_id = v_was.id and status = 'pending' and new is null
        and jsonb_typeof(v_was.extracted_fields #> path[:cardinality(path) - 1]) = 'array' limit 1)
    returning * into v_one;
    exit when not found;
    perform private.write_fields(v_was, v_was.extracted_fields #- v_one.path, p_removed => v_one.path);
    select * into v_was from public.extractions where id = v_was.id;
    p_accepted := array_remove(p_accepted, v_one.id);
  end loop;
  v_fields := v_was.extracted_fields;
  foreach v_id in array p_rejected || p_accepted loop
    select * into v_one from public.extraction_proposals where id = v_id and extraction_id = v_was.id;
    perform private.check_found(found, 'proposal');
    perform private.require(
      v_one.status = 'pending' and (v_fields #> v_one.path)::text is not distinct from v_one.old::text,
      format('The proposal for %s was already decided, or its value has changed.', left(v_one.name, 200)), 'PT409');
    update public.extraction_proposals set
      status = case when v_id = any (p_rejected) then 'rejected' else 'accepted' end, decided_by = auth.uid(),
      decided_at = clock_timestamp()
    where id = v_id;
    if (v_id = any (p_rejected)) is not true then
      v_fields := case
        when v_one.new is null then v_fields #- v_one.path else jsonb_set(v_fields, v_one.path, v_one.new) end;
      v_scores := v_scores || v_one.confidence_scores;
      v_evidence := v_evidence || v_one.evidence;
      v_names := v_names || v_one.name;
    end if;
  end loop;
  -- (Also if all are rejected: the status of the fields changes.)
  return jsonb_build_object('version',
    private.write_fields(v_was, v_fields, v_scores, v_evidence, p_decided => v_names) -> 'version');
end $$;

-- extraction_check.sql

-- The check of extractions: a trigger that every write into the table passes.

-- Returns the reviewer of an extraction that is being completed, and when they reviewed it: the user who writes, or who
-- approved all writes by agents. No row if there is none.
create function private.review(p_extraction_id uuid) returns table (reviewed_by uuid, reviewed_at timestamptz)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select auth.uid(), now() where not private.is_agent()
  union all
  select (array_agg(call.decided_by order by call.decided_at desc))[1], max(call.decided_at)
  from public.extraction_journal as entry
  left join public.tool_calls as call on call.run_id = entry.run_id and call.id = entry.call_id
  where private.is_agent() and entry.extraction_id = p_extraction_id and entry.actor = 'agent'
  having private.is_agent() and bool_and(call.approved_by is not distinct from 'person')
$$;

-- Security definer: writes that a lock blocks become proposals, a table without write privileges.
create function private.check_extraction() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_old public.extractions;
  v_author uuid;
  v_change jsonb := coalesce(nullif(current_setting('fieldmark.change', true), ''), '{}')::jsonb;
  v_set jsonb;
  v_scores jsonb;
  v_evidence jsonb;
  v_missing text[];
  v_removed text[];
  v_back jsonb;
  v_item text;
  v_name text;
  v_blocked record;
  v_kept text[];
  v_is_leaf boolean;
  v_stale text[] := '{}';
  v_written text[];
  v_asked text[] := '{}';
  v_resized text[] := '{}';
  v_longest integer;
  v_accepted boolean;
  v_confirmed jsonb := '{}';
  v_is_proposed boolean := false;
begin
  if tg_op = 'UPDATE' then
    v_old := old;
    new.updated_at := now();
  else
    v_old.version := new.version;
    v_old.extracted_fields := '{}';
    v_old.confidences := '{}';
    v_old.confidence_scores := '{}';
    v_old.evidence := '{}';
    v_old.locks := '{}';
    v_old.problems := '{}';
    v_old.second_reading := '{}';
    v_old.accepted := '{}';
    v_old.min_confidences := '{}';
    v_old.removed_items := '[]';
    perform private.check_json(new.schema::jsonb, 'A schema');
  end if;
  perform private.require(new.version = v_old.version, 'The version of an extraction is set by the database. Leave it out.');
  new.document_type_by := v_old.document_type_by;
  if new.document_type is distinct from v_old.document_type then
    v_author := case when not private.is_agent() then auth.uid() else coalesce(private.approving_user(),
      case when 'document_type' = any (private.paths_allowed_by_message()) then private.message_author() end) end;
    if not private.is_agent() or v_old.document_type_by is null or v_old.document_type_by = v_author then
      new.document_type_by := v_author;
    else
      new.document_type := v_old.document_type;
    end if;
  end if;
  -- (Unchanged values were checked earlier.)
  perform private.check_json(new.extracted_fields, 'The fields of an extraction', true)
  where new.extracted_fields is distinct from v_old.extracted_fields;
  if new.confidence_scores is distinct from v_old.confidence_scores then
    perform private.check_json(new.confidence_scores, 'The confidences of an extraction');
    new.confidences := (
      select coalesce(jsonb_object_agg(name, value), '{}') from private.nodes(new.confidence_scores)
      where private.is_leaf(value) and value <> 'null');
  end if;
  perform private.check_json(new.confidences, 'The confidences of an extraction')
  where new.confidences is distinct from v_old.confidences;
  perform private.check_json(
    new.evidence, 'The extraction has too many fields (the limit is about 6,000): the evidence')
  where new.evidence is distinct from v_old.evidence;
  if new.confidences is distinct from v_old.confidences and exists (
    select from jsonb_each(new.confidences)
    where case jsonb_typeof(value) when 'number' then value::numeric not between 0 and 1 else true end
  ) then
    raise exception 'Confidence must be a number from 0.0 to 1.0.' using errcode = 'PT422';
  end if;

  -- Scores and evidence that come with this change must belong to a field that exists.
  v_scores := private.changed_entries(v_old.confidences, new.confidences, v_change -> 'confidences');
  v_evidence := private.changed_entries(v_old.evidence, new.evidence, v_change -> 'evidence');
  if v_scores <> '{}' or v_evidence <> '{}' then
    v_missing := array(
      select key from jsonb_object_keys(v_scores || v_evidence) as key
      except select name from private.nodes(new.extracted_fields)
      order by key);
    perform private.require(
      v_change = '{}' or cardinality(v_missing) = 0,
      format('There is no field at path %s. Scores and evidence need a field.', left(v_missing[1], 200)));
    v_scores := v_scores - v_missing;
    v_evidence := v_evidence - v_missing;
    -- Only the service may write evidence. (A front end passes on the evidence of an accepted proposal.)
    perform private.require(
      private.is_service() or not exists (
        select from jsonb_each(v_evidence) as e where e.value ->> 'state' = 'found' and not exists (
          select from public.extraction_proposals as p
          where p.extraction_id = new.id and p.status = 'accepted' and p.decided_at >= now()
            and p.evidence -> e.key = e.value and new.extracted_fields #> p.path = p.new)),
      'Only the service writes evidence. Leave it out.', 'PT403');
  end if;

  -- A removed list item: the items after it move up and must not count as changed.
  if v_change ? 'removed' then
    v_removed := array(select jsonb_array_elements_text(v_change -> 'removed'));
    if (v_old.extracted_fields #- v_removed)::text <> new.extracted_fields::text then
      v_removed := null;
    end if;
  -- Or one that a person brings back, with what was stored about it.
  elsif v_change ? 'back' and not private.is_agent() then
    select value, array(select jsonb_array_elements_text(value -> 'path')) into v_back, v_removed
    from jsonb_array_elements(v_old.removed_items)
    where value -> 'version' = v_change -> 'back'
      and (new.extracted_fields #- array(select jsonb_array_elements_text(value -> 'path')))::text = v_old.extracted_fields::text;
    if v_back is not null then
      v_scores := '{}';
      v_evidence := '{}';
    end if;
  end if;

  -- An agent's write keeps locked values, with their scores and evidence.
  if tg_op = 'UPDATE' and private.is_agent() and old.locks <> '{}' then
    v_kept := private.binding_locks(old.locks);
    v_is_proposed := true;
    for v_blocked in select * from private.blocked_paths(old, new.extracted_fields, v_removed) loop
      v_is_leaf := private.is_leaf(v_blocked.old) and coalesce(private.is_leaf(v_blocked.new), true);
      perform private.propose(
        old, v_blocked.path, v_blocked.name, v_blocked.old, v_blocked.new,
        private.entries_under(v_scores, v_blocked.name, v_is_leaf), private.entries_under(v_evidence, v_blocked.name, v_is_leaf));
      if v_removed is null then
        new.extracted_fields := jsonb_set(new.extracted_fields, v_blocked.path, v_blocked.old, true);
      else
        new.extracted_fields := old.extracted_fields;
        v_removed := null;
      end if;
      if not v_is_leaf then
        v_kept := v_kept || array(select jsonb_object_keys(private.entries_under(v_scores || v_evidence, v_blocked.name)));
      end if;
    end loop;
    v_scores := v_scores - v_kept;
    v_evidence := v_evidence - v_kept;
  end if;

  -- Users may remove locks, but not add one or change its owner.
  if v_removed is not null then
    v_item := private.path_name(case when v_back is null then v_old.extracted_fields else new.extracted_fields end, v_removed);
  end if;
  new.locks := case
    when private.is_agent() then v_old.locks else private.unchanged_entries(v_old.locks, new.locks, '{}') end;
  if new.extracted_fields::text <> v_old.extracted_fields::text then
    if tg_op = 'UPDATE' then
      new.version := old.version + 1;
      -- After another write an agent must complete the extraction again. A write into a failed extraction reopens it.
      if new.status = old.status and (old.status = 'failed' or (private.is_agent() and old.schema is not null)) then
        new.status := 'in_progress';
      end if;
    end if;
    v_written := array(
      select private.path_name(new.extracted_fields, array(select jsonb_array_elements_text(path)))
      from jsonb_array_elements(v_change -> 'set') as path
      union all select jsonb_array_elements_text(v_change -> 'decided'));
    if v_removed is not null then
      v_written := v_written || v_item;
    end if;
    -- A write of a part of a list or list item answers no doubt about the whole.
    select coalesce(array_agg(name) filter (where not is_asked), '{}'),
      coalesce(array_agg(name) filter (where is_asked), '{}'), max(char_length(name)) filter (where c.new is not null),
      coalesce(array_agg(name) filter (where jsonb_typeof(c.new) = 'array' and jsonb_path_query_first(c.old, '$.size()')
        is distinct from jsonb_path_query_first(c.new, '$.size()')), '{}')
    into v_stale, v_asked, v_longest, v_resized
    from private.changes(v_old.extracted_fields, new.extracted_fields) as c
    cross join lateral (select c.new is not null and not private.is_leaf(c.new)
      and (v_old.evidence ? c.name or v_old.accepted ? c.name or v_old.problems ? c.name)
      and (v_change = '{}' or cardinality(v_written) > 0)
      and not exists (select from unnest(v_written) as name where private.is_within(c.name, name)) as is_asked) as kept;
    perform private.require(coalesce(v_longest, 0) <= 1000, 'The path of a field may have at most 1,000 characters.');
    new.locks := case
      when v_removed is null then private.locks_after(new.locks, v_old.extracted_fields, new.extracted_fields)
      else private.shift_entries(
        new.locks - v_stale, new.locks, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'locks', '{}')
    end;
  end if;
  if v_change ? 'set' and not private.is_agent() then
    for v_set in select value from jsonb_array_elements(v_change -> 'set') loop
      -- Also objects and lists, which have no locks; but not what is missing in them.
      v_name := private.path_name(new.extracted_fields, array(select jsonb_array_elements_text(v_set)));
      v_confirmed := v_confirmed || (
        select coalesce(jsonb_object_agg(path, coalesce(v_old.problems ->> path, reason)), '{}') from public.fields
        where extraction_id = new.id and status in ('needs_review', 'unclear') and not is_absent
          and (v_old.problems ? path or kind = 'container')
          and private.is_within(path, v_name));
      new.locks := private.locks_at(new.extracted_fields, array(select jsonb_array_elements_text(v_set)))
        || case when new.locks -> v_name ? 'whole' then new.locks - v_name else new.locks end;
    end loop;
    -- So does a value that a user confirms: the next run continues the extraction, and does not start another.
    if v_old.status = 'failed' and new.locks <> '{}' then
      new.status := 'in_progress';
    end if;
  end if;
  new.confidences := private.unchanged_entries(v_old.confidences, new.confidences, v_stale) || v_scores;
  new.evidence := private.unchanged_entries(v_old.evidence, new.evidence, v_stale) || v_evidence;
  -- (What supports a list is its values as they were.)
  new.evidence := (new.evidence - v_asked) || (select coalesce(jsonb_object_agg(key, value - 'supports'), '{}')
    from jsonb_each(new.evidence) where key = any (v_asked) and value ? 'doubts');
  if v_removed is not null then
    new.confidences := private.shift_entries(
      new.confidences, v_old.confidences, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'confidences', '{}');
    new.evidence := private.shift_entries(
      new.evidence, v_old.evidence, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'evidence', '{}');
  end if;
  if new.version <> v_old.version or tg_op = 'INSERT' or new.confidences is distinct from v_old.confidences then
    new.confidence_scores := case new.confidences when '{}' then '{}'
      else jsonb_strip_nulls(private.nested_scores(new.extracted_fields, new.confidences)) end;
  else
    new.confidence_scores := v_old.confidence_scores;
  end if;
  -- (The rows of another reading are named by their indexes.)
  new.second_reading := new.second_reading - v_stale - v_resized;
  new.problems := (new.problems - v_stale) - array(
    select key from jsonb_each(new.problems) where key = any (v_asked) and value <> '"second_reading"');
  -- (A changed status counts for the fields that its schema needs: record_problems.)
  if (new.version, new.schema::text, new.status) is distinct from (v_old.version, v_old.schema::text, v_old.status) then
    new.is_valid := null;
  end if;
  v_accepted := new.status = 'completed' and (v_old.status is distinct from 'completed' or v_change -> 'completed' = 'true');
  new.accepted := case
    when v_accepted and not private.is_agent() then (
      select coalesce(jsonb_object_agg(path, reason), '{}') from public.fields
      where extraction_id = new.id and reason <> 'proposal' and status in ('needs_review', 'unclear', 'accepted'))
    when v_accepted or v_change -> 'completed' = 'false' then '{}'
    -- A user who confirms a value knows what is wrong with it.
    else (v_old.accepted || v_confirmed) - v_stale end;
  if v_change ? 'unlocked' then
    -- A list or list item is no longer kept.
    new.accepted := new.accepted - array(select path from public.fields where extraction_id = new.id and kind = 'container'
      and private.is_within(path, v_change ->> 'unlocked'));
  end if;
  if v_removed is not null then
    new.problems := private.shift_entries(
      new.problems, v_old.problems, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'problems', '{}');
    new.accepted := private.shift_entries(
      new.accepted, v_old.accepted, v_old.extracted_fields, v_removed, v_back is not null) || coalesce(v_back -> 'accepted', '{}');
    new.second_reading := private.shift_entries(
      new.second_reading, v_old.second_reading, v_old.extracted_fields, v_removed, v_back is not null)
      || coalesce(v_back -> 'second_reading', '{}');
  end if;
  -- A problem that was solved and comes back is a new one. (A broken rule is a problem of the values that no person set.
  -- Only once a person has set all, it is one of each again.)
  new.accepted := (select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each_text(new.accepted)
    where value not in ('missing', 'breaks_schema', 'breaks_rule') or new.problems ->> key = value
      or value = 'breaks_rule' and new.locks ? key and jsonb_path_exists(new.problems, '$.* ? (@ == "breaks_rule")'));
  new.reviewed_by := v_old.reviewed_by;
  new.reviewed_at := v_old.reviewed_at;
  if v_accepted then
    select coalesce(r.reviewed_by, v_old.reviewed_by), case when r.reviewed_by is null then v_old.reviewed_at else r.reviewed_at end
    into new.reviewed_by, new.reviewed_at from (values (true)) as always left join private.review(new.id) as r on true;
  -- A withdrawn review, a new schema and unapproved writes by an agent need another review.
  elsif v_change -> 'completed' = 'false' or new.schema::text is distinct from v_old.schema::text or (
    new.version <> v_old.version and private.is_agent() and private.approving_user() is null
    and private.paths_allowed_by_message() = '{}') then
    new.reviewed_by := null;
    new.reviewed_at := null;
  end if;
  if tg_op = 'UPDATE' and new.version <> old.version then
    perform private.keep_proposals(
      new, v_old.extracted_fields, v_removed, v_back is not null, array(select jsonb_array_elements_text(v_change -> 'decided')));
  end if;
  if tg_op = 'UPDATE' and v_removed is not null then
    new.removed_items := case
      when v_back is not null then (
        select coalesce(jsonb_agg(value), '[]') from jsonb_array_elements(old.removed_items) where value <> v_back)
      when jsonb_typeof(old.extracted_fields #> v_removed[:cardinality(v_removed) - 1]) = 'array' then
        jsonb_path_query_array(private.removed_item(old, v_removed, new.version) || old.removed_items, '$[0 to 9]')
      else old.removed_items end;
    perform private.shift_audits(new.id, old.extracted_fields, v_removed, v_back -> 'audits');
  end if;
  if tg_op = 'UPDATE' and v_accepted and private.is_agent() and new.schema_revid is not null then
    new.model := coalesce((select model from public.usage where run_id = private.this_run() order by created_at desc limit 1), '');
    select p.min_confidences, p.audit_rate into new.min_confidences, new.audit_rate
    from private.review_policy(new.schema_revid, new.model) as p;
    if new.layout is null and new.audit_rate > 0 then
      new.layout_words := private.layout_words(new.id, new.document_id);
      new.layout := private.layout_of(new.schema_revid, new.layout_words);
    end if;
    new.drawn_to := private.draw_audits(new, old.drawn_to);
  end if;
  if tg_op = 'UPDATE' and (
    new.version <> old.version or v_is_proposed or v_change ? 'decided'
    or (new.evidence, new.confidences, new.locks, new.problems, new.accepted, new.reviewed_at, new.min_confidences, new.drawn_to)
      is distinct from (
        old.evidence, old.confidences, old.locks, old.problems, old.accepted, old.reviewed_at, old.min_confidences, old.drawn_to)) then
    new.review_count := private.store_fields(old, new);
    new.unseen_count := (select count(*) from public.fields
      where extraction_id = new.id and new.audit_rate is not null and status = 'found' and kind <> 'container'
        and state = 'found' and outcome is null);
  end if;
  return new;
end $$;

create trigger check_extraction before insert or update on public.extractions
  for each row execute function private.check_extraction();

-- field_status.sql

-- What a field's status is, and why. The only place that decides it: all else reads the rows of public.fields.

-- The first case that holds counts. A person has to look at fields that are `needs_review` or `unclear`.
--   p_kind      boolean; blank: there is no value; container: an object or a list, whose values have statuses of their own. A list
--               item that may be no row of its own, or a list without some of its rows, is one field to look at
--   p_state     of the evidence: found, message (in a person's message), not_found, blank
--   p_doubt     why the evidence is unsure, if it says so
--   p_problem   missing, breaks_schema or breaks_rule: found by the service, which knows the schema
--   p_min       the confidence from which the value is accepted without a look; above 1: never
--   p_is_audit  the value was drawn for an audit, and no one has looked at it
--   p_accepted  the reason that a person knew when confirming the value or reviewing the extraction
-- A field is verified if the document or a person vouches for its value, whatever else is to be looked at: figures count it.
create function private.field_status(
  p_kind text, p_state text, p_confidence numeric, p_doubt text, p_is_locked boolean, p_is_proposed boolean,
  p_problem text, p_min numeric, p_is_audit boolean, p_accepted text
) returns table (status text, reason text, is_verified boolean) language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when said.status in ('needs_review', 'unclear') and said.reason = p_accepted then 'accepted' else said.status end,
    said.reason,
    p_kind = 'container' or p_is_locked or coalesce(p_state in ('found', 'message'), false)
      or coalesce(said.reason = p_accepted, false)
  from (select case
      when p_is_proposed and p_kind <> 'container' then 'needs_review'
      when p_is_locked and p_kind = 'blank' then 'blank'
      when p_problem is not null then 'needs_review'
      when p_is_locked then 'confirmed'
      when p_kind = 'container' then case when p_confidence < 0.5 then 'unclear' else 'found' end
      when p_kind = 'blank' then case p_state when 'blank' then 'blank' else 'not_written' end
      when p_state is null or p_state not in ('found', 'message') then 'needs_review'
      when p_confidence < least_needed or p_is_audit then 'unclear'
      else 'found' end as status, case
      when p_is_proposed and p_kind <> 'container' then 'proposal'
      when p_is_locked and p_kind = 'blank' then 'person'
      when p_problem is not null then p_problem
      when p_is_locked then case when p_state is distinct from 'found' then 'person' end
      when p_kind = 'container' then case when p_confidence < 0.5 then coalesce(p_doubt, 'low_confidence') end
      when p_kind = 'blank' then null
      when p_state is null or p_state not in ('found', 'message') then 'not_found'
      when p_confidence < least_needed then
        coalesce(p_doubt, case
          when p_confidence < 0.5 then 'low_confidence' when p_min > 1 then 'often_corrected' else 'below_threshold' end)
      when p_is_audit then 'audit'
      when p_state = 'message' then 'message' end as reason
    -- The list item of a value with the doubt `row` is what a person is asked. A yes or no never has more than 0.7: only its
    -- words are printed; audits show whether that is enough.
    from (select case
      when p_min <= 1 and (p_doubt = 'row' or p_kind = 'boolean') then 0.5
      else greatest(p_min, 0.5) end) as n (least_needed)) as said
$$;

-- audits.sql

-- Audits: values drawn at random when an agent completes an extraction, among all that it found on a page. A person looks at
-- each, and so bounds how many of the others are wrong.

create table public.audits (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  extraction_id uuid not null,
  -- Of the value now. Null: a person removed it.
  path text,
  schema_revid uuid not null,
  model text not null,
  confidence numeric not null,
  -- The random number, below the rate with which the values of the extraction were drawn. Audits with a number below a
  -- lower rate are as if drawn with that rate: so audits of different rates can be compared.
  draw float8 not null,
  -- Whether nothing else asks a person to look at the value: it would be accepted without a look.
  is_accepted boolean not null,
  -- What a look at this value came to, one by one: not with a review of the whole extraction.
  outcome text check (outcome in ('right', 'wrong')),
  checked_by uuid,
  checked_at timestamptz,
  created_at timestamptz not null default now(),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index audits_extraction_id on public.audits (extraction_id);
create index audits_schema_revid on public.audits (schema_revid, model)
  include (draw, confidence, is_accepted, outcome);
select private.protect_table('public.audits', p_members_read => true);

-- A random number from 0 to 1 that no one can predict from those before.
create function private.draw() returns float8
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select (uuid_hash_extended(gen_random_uuid(), 0)::numeric / 18446744073709551616 + 0.5)::float8 $$;

-- The share of values that are drawn, after so many were accepted: a tenth until there are enough for the goal with one
-- wrong among them (475 for 1 %), then fewer with each value, so that there always are as many. 0 without a goal.
create function private.audit_rate(p_max_error numeric, p_values bigint) returns float8
language sql immutable set search_path = pg_catalog, pg_temp
return case when p_max_error >= 1 then 0 else least(0.1, 4.75 / p_max_error / greatest(p_values, 1)) end;

-- The confidence from which a value is accepted until audits show another one: of the values from 0.95 without a doubt 0.3 to
-- 0.9 % are wrong, of those from 0.5 up to 3 % (docs/performance.md).
create function private.starting_confidence(p_max_error numeric) returns numeric
language sql immutable set search_path = pg_catalog, pg_temp
return case when p_max_error < 0.03 then 0.95 else 0.5 end;

-- Versions of a schema that read as one version does: it, and those that do not differ from the latest if it is the latest.
create function private.same_versions(p_schema_revid uuid) returns setof uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p_schema_revid
  union
  select o.id from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
  join public.schema_versions as o on o.schema_id = s.id and s.differences -> o.id::text = '{}'
  where v.id = p_schema_revid and not s.differences ? v.id::text
$$;

-- Whether a layout is new, of whose drawn values so many were looked at: none, or fewer than half of them and than 20.
create function private.is_new_layout(p_looked_at bigint, p_drawn bigint) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp return p_looked_at < greatest(1, least(20, p_drawn / 2.0));

-- The values drawn in what a model read, with the layouts of their documents: those that wait for a look or had one. None
-- waits that was reviewed with its list or document.
create function private.drawn_values(p_schema_revids uuid[], p_model text)
returns table (layout uuid, confidence numeric, draw float8, is_accepted boolean, outcome text, checked_at timestamptz)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query select coalesce(e.layout, e.id), a.confidence, a.draw, a.is_accepted, a.outcome, a.checked_at
  from public.audits as a join public.extractions as e on e.id = a.extraction_id
  where a.schema_revid = any (p_schema_revids) and a.model = p_model
    and (a.outcome is not null or exists (
      select from public.fields as f where f.extraction_id = a.extraction_id and f.path = a.path and f.outcome is null));
end $$;

-- The layouts of what a model read, the values in them that were accepted without a look, and whether the claim covers them.
-- A document that looks like no other has no layout of its own: all of those are judged together (`alike` is null).
create function private.layout_coverage(p_schema_revids uuid[], p_model text)
returns table (layout uuid, alike uuid, "values" bigint, is_covered boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query with layouts as (
    select coalesce(e.layout, e.id) as layout, case when count(*) > 1 then e.layout end as alike, sum(e.unseen_count) as "values"
    from public.extractions as e where e.schema_revid = any (p_schema_revids) and e.model = p_model and e.audit_rate > 0
    group by e.layout, coalesce(e.layout, e.id)
  ), drawn as (
    select d.layout, count(d.outcome) as looked_at, count(*) as drawn
    from private.drawn_values(p_schema_revids, p_model) as d where d.is_accepted group by d.layout
  )
  select l.layout, l.alike, l."values", not private.is_new_layout(
    coalesce(sum(d.looked_at) over alike, 0)::bigint, coalesce(sum(d.drawn) over alike, 0)::bigint)
  from layouts as l left join drawn as d on d.layout = l.layout
  window alike as (partition by l.alike);
end $$;

-- What people's looks at the values of a schema's newest version show, of those that the newest model read. For members, and
-- for the service without a user.
--   values   accepted without a look: no one has looked at them
--   uncovered_values, uncovered_layouts   of those in layouts that the claim does not cover (private.layout_coverage);
--            `uncovered` has their documents' layouts
--   rate     the lowest rate with which values were drawn: looks at those drawn with a higher number are left out
--   audits   [confidence, whether it would be accepted without the audit, whether its layout is covered, right, wrong,
--            waiting] by the first three. None waits of values that were reviewed with their list or document
--   weeks    [monday, right, wrong] of the audits that the claim counts, by the week of the look
--   looks    [pattern, confidence of at least 0.95 (2), 0.5 (1) or less (0), checked, corrected] of the newest 10,000 looks
create function private.review_figures(p_schema_id uuid) returns table (
  max_error numeric, own_max_error numeric, starting_confidence numeric, schema_revid uuid, schema_revids uuid[], model text,
  "values" bigint, uncovered_values bigint, uncovered_layouts bigint, uncovered uuid[], rate float8, audits jsonb,
  weeks jsonb, looks jsonb, min_confidences jsonb
) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_org uuid := (select org_id from public.schemas where id = p_schema_id);
begin
  perform private.check_found(
    private.is_service() and auth.uid() is null or v_org in (select private.my_org_ids()), 'schema');
  select coalesce(s.max_error, o.max_error), s.max_error, v.id, private.starting_confidence(coalesce(s.max_error, o.max_error))
  into max_error, own_max_error, schema_revid, starting_confidence
  from public.schemas as s join public.organisations as o on o.id = s.org_id
  join public.schema_versions as v on v.schema_id = s.id where s.id = p_schema_id order by v.number desc limit 1;
  schema_revids := array(select private.same_versions(schema_revid));
  select e.model, sum(e.unseen_count), min(e.audit_rate) into model, "values", rate
  from public.extractions as e where e.schema_revid = any (schema_revids) and e.audit_rate > 0
  group by e.model order by max(e.created_at) desc limit 1;
  "values" := coalesce("values", 0);
  select coalesce(sum(c."values"), 0), count(distinct coalesce(c.alike::text, '')) filter (where c."values" > 0),
    coalesce(array_agg(c.layout), '{}')
  into uncovered_values, uncovered_layouts, uncovered
  from private.layout_coverage(schema_revids, model) as c where not c.is_covered;
  audits := (
    select coalesce(jsonb_agg(jsonb_build_array(
      a.confidence, a.is_accepted, a.is_covered, a.is_right, a.is_wrong, a.waiting)), '[]') from (
      select d.confidence, d.is_accepted, d.layout <> all (uncovered) as is_covered,
        count(*) filter (where d.outcome = 'right') as is_right, count(*) filter (where d.outcome = 'wrong') as is_wrong,
        count(*) filter (where d.outcome is null) as waiting
      from private.drawn_values(schema_revids, model) as d where d.draw < rate or d.outcome is null group by 1, 2, 3) as a);
  weeks := (
    select coalesce(jsonb_agg(jsonb_build_array(a.monday, a.is_right, a.is_wrong) order by a.monday), '[]') from (
      select date_trunc('week', d.checked_at at time zone 'utc')::date as monday,
        count(*) filter (where d.outcome = 'right') as is_right, count(*) filter (where d.outcome = 'wrong') as is_wrong
      from private.drawn_values(schema_revids, model) as d
      where d.draw < rate and d.is_accepted and d.layout <> all (uncovered) and d.outcome is not null
      group by 1) as a);
  looks := (
    select coalesce(jsonb_agg(jsonb_build_array(f.pattern, l.band, l.checked, l.corrected)), '[]') from (
      select max(id) as example, (checked_confidence >= 0.5)::integer + (checked_confidence >= 0.95)::integer as band,
        count(*) as checked, count(*) filter (where outcome = 'corrected') as corrected
      from (
        select * from public.fields where org_id = v_org and outcome is not null
        order by checked_at desc limit 10000) as newest
      where checked_revid = any (schema_revids) and outcome in ('confirmed', 'corrected') and checked_confidence is not null
      group by pattern_key, band) as l
    join public.fields as f on f.id = l.example);
  min_confidences := (select p.min_confidences from private.review_policy(schema_revid, model) as p);
  return next;
end $$;

-- Stores what the looks of people showed, for the extractions that follow: see private.review_policy.
create function private.store_review_policy(p_schema_id uuid, p_policy jsonb) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.schemas set review_policy = p_policy where id = p_schema_id and private.is_service()
    and review_policy is distinct from p_policy
$$;

-- Sets how many of a table's values that no one looks at may be wrong. Null: as many as the organisation says.
create function public.set_max_error(p_schema_id uuid, p_max_error numeric) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.schemas set max_error = p_max_error, recount = true
  where id = p_schema_id and deleted_at is null and org_id in (select private.my_writable_org_ids());
  perform private.check_found(found, 'schema');
end $$;

-- What is accepted without a look in an extraction by this model: from which confidence, by pattern (`*`: all others), and
-- the rate of audits. What was learnt counts for the same model, goal and schema.
create function private.review_policy(p_schema_revid uuid, p_model text)
returns table (min_confidences jsonb, audit_rate float8)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when known.is_same and s.review_policy ->> 'max_error' = goal.max_error::text
      then s.review_policy -> 'min_confidences'
      else jsonb_build_object('*', private.starting_confidence(goal.max_error)) end,
    private.audit_rate(goal.max_error, case when known.is_same then (s.review_policy ->> 'values')::bigint else 0 end)
  from public.schema_versions as v
  join public.schemas as s on s.id = v.schema_id
  join public.organisations as o on o.id = s.org_id
  cross join lateral (select coalesce(s.max_error, o.max_error) as max_error) as goal
  cross join lateral (select s.review_policy ->> 'model' = p_model
    and (s.review_policy ->> 'schema_revid')::uuid in (select private.same_versions(v.id)) as is_same) as known
  where v.id = p_schema_revid
$$;

-- The hashes of what is printed on a document's first page beside the values of its extraction: labels, and what the sender
-- prints on each document. Pages of the same layout share most of them.
create function private.layout_words(p_extraction_id uuid, p_document_id uuid) returns integer[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (select coalesce(array_agg(distinct hashtext(word[1])), '{}') from (
    select regexp_matches(lower(left(text, 20000)), '[[:alpha:]]{3,}', 'g') as word
    from public.document_pages where document_id = p_document_id and number = 1
    except
    select regexp_matches(lower(text), '[[:alpha:]]{3,}', 'g')
    from public.fields where extraction_id = p_extraction_id and kind = 'text') as printed);
end $$;

-- The layout of a page with these words: that of the most similar of the table's newest 200 extractions with at least half
-- of the words of both, or a new one.
create function private.layout_of(p_schema_revid uuid, p_words integer[]) returns uuid
language sql volatile set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select e.layout from (
      select layout, layout_words from private.same_versions(p_schema_revid) as version (id)
      cross join lateral (
        select layout, layout_words, created_at from public.extractions
        where schema_revid = version.id and layout is not null order by created_at desc, id desc limit 200) as newest
      order by created_at desc limit 200) as e
    cross join lateral (
      select count(*) filter (where word = any (p_words)) as shared, count(*) as own from unnest(e.layout_words) as word) as n
    where shared * 2 >= own + cardinality(p_words) - shared and shared > 0
    order by shared::float8 / (own + cardinality(p_words) - shared) desc limit 1), private.new_id())
$$;

-- Draws audits among the values that an agent found, each value once: those with an id above `p_after`. Returns the last id.
-- If none of a layout that several documents have was drawn yet, the value with the lowest number is: so whether the claim
-- covers a layout depends on people's looks, and not on what was drawn.
create function private.draw_audits(p_extraction public.extractions, p_after bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  with one as materialized (
    select f.id, f.path, f.confidence, private.draw() as draw from public.fields as f
    where f.extraction_id = p_extraction.id and f.id > p_after and f.state = 'found' and f.confidence is not null
      and f.kind not in ('container', 'blank') and f.outcome is null
  ), first as (
    select id from one
    where p_extraction.audit_rate > 0
      and exists (select from public.extractions as e where e.layout = p_extraction.layout and e.id <> p_extraction.id
        and e.model = p_extraction.model and e.audit_rate > 0)
      and not exists (select from public.audits as a join public.extractions as e on e.id = a.extraction_id
        where e.layout = p_extraction.layout and a.model = p_extraction.model and a.is_accepted)
    order by confidence >= (p_extraction.min_confidences ->> '*')::numeric desc nulls last, draw limit 1)
  insert into public.audits (org_id, extraction_id, path, schema_revid, model, confidence, draw, is_accepted)
  select p_extraction.org_id, p_extraction.id, path, p_extraction.schema_revid, p_extraction.model, confidence, draw, false
  from one where draw < p_extraction.audit_rate or id in (select id from first);
  return (select coalesce(max(id), p_after) from public.fields where extraction_id = p_extraction.id);
end $$;

-- What is stored about a list item and about its list, before the item is removed.
create function private.removed_item(p_was public.extractions, p_path text[], p_version integer) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('version', p_version, 'path', p_path,
      'audits', (select private.entries_under(coalesce(jsonb_object_agg(path, id), '{}'), item)
        from public.audits where extraction_id = p_was.id and path is not null))
    || (select jsonb_object_agg(kind, private.entries_under(entries, item) || private.entries_under(entries, list, true))
      from (values ('locks', p_was.locks), ('confidences', p_was.confidences), ('evidence', p_was.evidence),
        ('problems', p_was.problems), ('accepted', p_was.accepted), ('second_reading', p_was.second_reading)) as a (kind, entries))
  from private.path_name(p_was.extracted_fields, p_path) as item,
    private.path_name(p_was.extracted_fields, p_path[:cardinality(p_path) - 1]) as list
$$;

-- Follows the audits of a list after one of its items was removed, or came back with its audits. What was in it was wrong if
-- a person removed it.
create function private.shift_audits(p_extraction_id uuid, p_was jsonb, p_item text[], p_back jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.audits as a set path = found.path
  from (
    select one.id, moved.key as path from public.audits as one
    left join jsonb_each(private.shift_entries('{}', (
        select coalesce(jsonb_object_agg(path, id), '{}') from public.audits where extraction_id = p_extraction_id and path is not null),
      p_was, p_item, p_back is not null) || coalesce(p_back, '{}')) as moved on moved.value = to_jsonb(one.id)
    where one.extraction_id = p_extraction_id and (p_back ?| array[moved.key]
      or starts_with(one.path, private.path_name(p_was, p_item[:cardinality(p_item) - 1]) || '['))) as found
  where a.id = found.id and a.path is distinct from found.path;
end $$;

-- Stores what the looks at the drawn values of an extraction came to. An agent's own change of a value ends its audit.
create function private.settle_audits(p_extraction_id uuid, p_changed text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update public.audits as a set outcome = now.outcome, checked_by = now.checked_by, checked_at = now.checked_at,
    is_accepted = now.is_accepted
  from (
    select one.id, case when f.outcome is null then coalesce(f.reason = 'audit', false) else one.is_accepted end as is_accepted,
      said.outcome, case when said.outcome is not null then coalesce(f.checked_by, auth.uid()) end as checked_by,
      case when said.outcome is not null then coalesce(f.checked_at, now()) end as checked_at
    from public.audits as one left join public.fields as f on f.extraction_id = one.extraction_id and f.path = one.path
    cross join lateral (select case
      when f.outcome = 'confirmed' then 'right'
      when f.outcome = 'corrected' or f.id is null and not private.is_agent() then 'wrong' end as outcome) as said
    where one.extraction_id = p_extraction_id and not (one.outcome is not null and f.id is null)) as now
  where a.id = now.id
    and (a.outcome, a.checked_by, a.checked_at, a.is_accepted)
      is distinct from (now.outcome, now.checked_by, now.checked_at, now.is_accepted);
  delete from public.audits as a where extraction_id = p_extraction_id and outcome is null
    and (path is null or path = any (p_changed)
      or not exists (select from public.fields as f where f.extraction_id = a.extraction_id and f.path = a.path));
end $$;

-- fields.sql

-- The fields of extractions as rows, with their statuses. Everything that lists, counts, filters or exports fields reads
-- them. A trigger writes them with each change of an extraction. `extracted_fields` remains the truth.

create table public.fields (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  document_id uuid not null,
  extraction_id uuid not null,
  -- `items[2].price`; `pattern` is the path without indexes, `items[].price`, and `indexes` has them: {2}.
  path text not null,
  pattern text not null,
  -- An index on `pattern` itself would reject long paths.
  pattern_key uuid not null generated always as (md5(pattern)::uuid) stored,
  indexes integer[] not null,
  -- Finds the values of one row of a long list. (Without statistics, an index that begins with extraction_id loses to the
  -- one on pattern_key, which reads all values of the extraction for each row.)
  row_key bigint not null generated always as (uuid_hash_extended(extraction_id, hash_array_extended(indexes, 0))) stored,
  -- A container is an object or a list; its `text` is the start of its JSON. A blank is a null or empty value, or a field
  -- that should have a value and does not exist.
  kind text not null check (kind in ('number', 'day', 'text', 'boolean', 'container', 'blank')),
  text text check ((text is null) = (kind = 'blank')),
  number numeric check ((number is not null) = (kind = 'number')),
  day date check ((day is not null) = (kind = 'day')),
  -- Of a number: the code or text beside it, or in the nearest object around it. Null for quantities.
  currency text,
  -- The state of its evidence: found, not_found, …
  state text,
  confidence numeric,
  -- By private.field_status.
  is_verified boolean not null,
  status text not null check (status in ('needs_review', 'unclear', 'not_written', 'blank', 'accepted', 'confirmed', 'found')),
  reason text,
  -- A field that should have a value, and is not in the fields of the extraction.
  is_absent boolean not null default false check (not is_absent or kind = 'blank'),
  -- What a person's check of the value came to, by private.field_check. Null: no person checked it.
  outcome text check (outcome in ('confirmed', 'reviewed', 'corrected', 'found', 'absent')),
  checked_by uuid,
  checked_at timestamptz,
  -- The version of the stored schema that the extraction then followed.
  checked_revid uuid,
  -- The confidence that the agent's value had then.
  checked_confidence numeric,
  foreign key (extraction_id, document_id, org_id) references public.extractions (id, document_id, org_id)
    on delete cascade
);
create index fields_extraction_id on public.fields (extraction_id, pattern_key);
create index fields_row_key on public.fields (row_key);
create index fields_to_review on public.fields (extraction_id) where status in ('needs_review', 'unclear');
create index fields_checked on public.fields (org_id, checked_at)
  include (outcome, checked_revid, pattern_key, checked_by, extraction_id, id, checked_confidence) where outcome is not null;
select private.protect_table('public.fields', p_members_read => true);

-- Whether the name of a field says that its number is a count, measure, rate or identifier, and not an amount.
create function private.is_quantity(p_key text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return regexp_replace(p_key, '([[:lower:][:digit:]])([[:upper:]])', '\1_\2', 'g') ~* ('(^|[^[:alpha:]])('
  '(qty|quantity|quantities|menge|anzahl)([^[:alpha:]]+(ordered|delivered|shipped|invoiced|billed|returned|total))?'
  '|count|pieces|pcs|units|hours|days|nights|weeks|months|years|pages|lines|persons|people|guests|weight|length|width|height'
  '|area|distance|mileage|km|kg|kwh|percent|percentage|pct|(vat|tax|discount|interest|exchange)[^[:alpha:]]*rate'
  '|number|num|no|nr|id|position|pos|index|year|age|stück|stueck|stunden|tage|gewicht|prozent|prozentsatz'
  '|steuersatz|nummer|jahr|quantité|poids|heures|cantidad|horas|porcentaje|quantità|percentuale|aantal|uren)[^[:alpha:]]*$');

-- The pattern and the indexes of a path name: `items[2].price` has the pattern `items[].price` and the indexes {2}.
create function private.pattern_of(p_name text) returns table (pattern text, indexes integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when p_name !~ '\[[0-9]' then p_name
      else string_agg(coalesce(part[1], '[]'), '' order by n) end,
    case when p_name !~ '\[[0-9]' then '{}' else
      coalesce(array_agg(part[2]::integer order by n) filter (where part[2] is not null), '{}') end
  from regexp_matches(p_name, '(\["(?:[^"\\]|\\.)*"\]|[^[]+)|\[([0-9]{1,9})\]', 'g') with ordinality as found (part, n)
$$;

-- Whether a path is another one or below it.
create function private.is_within(p_path text, p_of text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
return p_path = p_of or starts_with(p_path, p_of || '.') or starts_with(p_path, p_of || '[');

-- What a person's check of a value came to: `confirmed` one by one, `reviewed` with its list, object or extraction,
-- `corrected`, `found` (the agent had none), or `absent` (so had the person). `p_lock` is that of the value, if it has one.
create function private.field_check(p_kind text, p_text text, p_lock jsonb, p_reviewed_by uuid, p_reviewed_at timestamptz)
returns table (outcome text, checked_by uuid, checked_at timestamptz)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select said.outcome, case when p_lock is null then p_reviewed_by else (p_lock ->> 'by')::uuid end,
    case when p_lock is null then p_reviewed_at else (p_lock ->> 'at')::timestamptz end
  from (select case
      when p_kind = 'container' then null
      when p_lock is null then case when p_kind <> 'blank' and p_reviewed_at is not null then 'reviewed' end
      when not p_lock ? 'was' then case p_kind when 'blank' then 'absent' else 'found' end
      when p_lock ->> 'was' is distinct from p_text then 'corrected' when p_lock ? 'whole' then 'reviewed' else 'confirmed' end as outcome) as said
  where said.outcome is not null
$$;

-- Writes the rows of an extraction after a change. Returns the number of fields that a person has to look at.
create function private.store_fields(p_old public.extractions, p_new public.extractions) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  -- (Decompressed once, instead of once for each value.)
  v_fields jsonb := jsonb_path_query_first(p_new.extracted_fields, '$');
  v_evidence jsonb := jsonb_path_query_first(p_new.evidence, '$');
  v_problems jsonb := jsonb_path_query_first(p_new.problems, '$');
  v_old jsonb := jsonb_path_query_first(p_old.extracted_fields, '$');
  v_proposed text[] := array(
    select name from public.extraction_proposals where extraction_id = p_new.id and status = 'pending');
  v_has_currency boolean := v_fields::text ~* 'currency(_?code)?\\?"';
  v_audited text[] := array(select path from public.audits where extraction_id = p_new.id and path is not null);
  v_changed text[];
  v_marked text[];
begin
  v_changed := array(select name from private.changes(v_old, v_fields) where p_new.version <> p_old.version);
  if exists (select from unnest(v_changed) as name where name ~* 'currency(_?code)?("\])?$') then
    -- The currency of every number may be another one.
    v_old := '{}';
    delete from public.fields where extraction_id = p_new.id;
  else
    v_marked := array(
      select key from jsonb_each(p_old.evidence) as o full join jsonb_each(v_evidence) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.confidences) as o full join jsonb_each(p_new.confidences) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.locks) as o full join jsonb_each(p_new.locks) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.problems) as o full join jsonb_each(v_problems) as n using (key)
      where o.value is distinct from n.value
      union
      select key from jsonb_each(p_old.accepted) as o full join jsonb_each(p_new.accepted) as n using (key)
      where o.value is distinct from n.value
      union
      select unnest(v_audited)
      union
      select path from public.fields where extraction_id = p_new.id and p_old.min_confidences <> p_new.min_confidences
      union
      select path from public.fields as f where extraction_id = p_new.id and kind <> 'container'
        and (reason is not distinct from 'proposal') <> exists (select from unnest(v_proposed) as p (name) where private.is_within(f.path, p.name)));
    -- Also fields without a value that need none any more.
    delete from public.fields as f where f.extraction_id = p_new.id and (
      f.path = any (v_changed)
      or f.is_absent and f.path = any (v_marked) and not (v_problems ? f.path));
    update public.fields as f set state = v_evidence -> f.path ->> 'state',
      confidence = (p_new.confidences ->> f.path)::numeric,
      is_verified = s.is_verified, status = s.status, reason = s.reason
    from public.fields as g cross join lateral private.field_status(
      g.kind, v_evidence -> g.path ->> 'state', (p_new.confidences ->> g.path)::numeric,
      coalesce(v_evidence -> g.path ->> 'reason', v_evidence -> g.path -> 'doubts' ->> 0), p_new.locks ? g.path, exists (select from unnest(v_proposed) as p (name) where private.is_within(g.path, p.name)),
      v_problems ->> g.path, coalesce(p_new.min_confidences -> g.pattern, p_new.min_confidences -> '*')::numeric,
      g.path = any (v_audited), p_new.accepted ->> g.path) as s
    where f.id = g.id and g.extraction_id = p_new.id and g.path = any (v_marked);
  end if;
  insert into public.fields (
    org_id, document_id, extraction_id, path, pattern, indexes, kind, text, number, day, currency, state, confidence,
    is_verified, status, reason)
  select p_new.org_id, p_new.document_id, p_new.id, c.name, l.pattern, l.indexes, k.kind,
    case k.kind when 'container' then left(c.new::text, 500) when 'blank' then null else c.new #>> '{}' end,
    case k.kind when 'number' then c.new::numeric end,
    case k.kind when 'day' then left(c.new #>> '{}', 10)::date end,
    case beside.currency
      when '€' then 'EUR' when 'EURO' then 'EUR' when 'EUROS' then 'EUR' when 'US$' then 'USD' when 'A$' then 'AUD'
      when 'C$' then 'CAD' when 'NZ$' then 'NZD' when 'S$' then 'SGD' when 'HK$' then 'HKD' when 'R$' then 'BRL'
      when 'RMB' then 'CNY' when '₹' then 'INR' when 'SFR' then 'CHF' else beside.currency end,
    v_evidence -> c.name ->> 'state',
    (p_new.confidences ->> c.name)::numeric,
    s.is_verified, s.status, s.reason
  from private.changes(v_old, v_fields) as c
  cross join lateral (select case when c.new in ('null', '""', '{}', '[]') then 'blank' else case jsonb_typeof(c.new)
    when 'object' then 'container' when 'array' then 'container' when 'string' then
      case when c.new #>> '{}' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)' and pg_input_is_valid(left(c.new #>> '{}', 10), 'date')
        then 'day' else 'text' end
    else jsonb_typeof(c.new) end end as kind,
    v_has_currency and jsonb_typeof(c.new) = 'number' and private.is_quantity(c.path[cardinality(c.path)]) as is_quantity offset 0) as k
  cross join lateral (
    select c.name as pattern, '{}'::integer[] as indexes where c.steps !~ 'i'
    union all
    select regexp_replace(string_agg(
        case substr(c.steps, n::integer, 1) when 'i' then '[]' else substr(private.child_name('x', key), 2) end, ''
        order by n), '^\.', ''),
      array_agg(key order by n) filter (where substr(c.steps, n::integer, 1) = 'i')::integer[]
    from unnest(c.path) with ordinality as step (key, n) where c.steps ~ 'i' having count(*) > 0
  ) as l
  left join lateral (
    -- In its object `total_currency` (for `total`), else, unless it is a quantity, the nearest of three keys around it.
    select upper(left(btrim(v_fields #>> (c.path[:depth] || q.key)), 20)) as currency
    from generate_series(cardinality(c.path) - 1, 0, -1) as depth
    cross join unnest(array[c.path[cardinality(c.path)] || '_currency', 'currency', 'currency_code', 'currencyCode'])
      with ordinality as q (key, n)
    where case when n > 1 then not k.is_quantity else depth = cardinality(c.path) - 1 end
      and jsonb_typeof(v_fields #> (c.path[:depth] || q.key)) = 'string'
      and btrim(v_fields #>> (c.path[:depth] || q.key)) <> ''
    order by depth desc, n limit 1
  ) as beside on v_has_currency and k.kind = 'number'
  cross join lateral private.field_status(
    k.kind, v_evidence -> c.name ->> 'state', (p_new.confidences ->> c.name)::numeric,
    coalesce(v_evidence -> c.name ->> 'reason', v_evidence -> c.name -> 'doubts' ->> 0), p_new.locks ? c.name, exists (select from unnest(v_proposed) as p (name) where private.is_within(c.name, p.name)),
    v_problems ->> c.name, coalesce(p_new.min_confidences -> l.pattern, p_new.min_confidences -> '*')::numeric,
    c.name = any (v_audited), p_new.accepted ->> c.name) as s
  where c.new is not null and p_new.version is distinct from p_old.version;
  if v_problems <> '{}' then
    insert into public.fields (
      org_id, document_id, extraction_id, path, pattern, indexes, kind, is_absent, text, is_verified, status, reason)
    select p_new.org_id, p_new.document_id, p_new.id, one.key, l.pattern, l.indexes, 'blank', true, null, s.is_verified, s.status, s.reason
    from jsonb_each_text(v_problems) as one
    cross join lateral private.pattern_of(one.key) as l
    cross join lateral private.field_status(
      'blank', null, null, null, false,
      exists (select from unnest(v_proposed) as p (name) where private.is_within(one.key, p.name)),
      one.value, null, false, p_new.accepted ->> one.key) as s
    where not exists (select from public.fields where extraction_id = p_new.id and path = one.key);
  end if;
  if p_new.locks <> '{}' or p_old.locks <> '{}' or p_new.reviewed_at is distinct from p_old.reviewed_at then
    update public.fields as f set outcome = c.outcome, checked_by = c.checked_by, checked_at = c.checked_at,
      checked_revid = case when c.outcome is not null then p_new.schema_revid end,
      checked_confidence = case when c.outcome is not null then (p_old.confidences ->> g.path)::numeric end
    from public.fields as g left join lateral private.field_check(
      g.kind, g.text, p_new.locks -> g.path, p_new.reviewed_by, p_new.reviewed_at) as c on true
    where f.id = g.id and g.extraction_id = p_new.id
      and (g.outcome, g.checked_by, g.checked_at) is distinct from (c.outcome, c.checked_by, c.checked_at);
  end if;
  perform private.settle_audits(p_new.id, case when private.is_agent() then v_changed else '{}' end)
  where cardinality(v_audited) > 0 or exists (select from public.audits where extraction_id = p_new.id);
  return (select count(*) from public.fields
    where extraction_id = p_new.id and status in ('needs_review', 'unclear'));
end $$;

-- How many fields of an extraction a person has to look at, by row of the table whose rows are the items of `p_list`, such
-- as `items[]`. A row counts those with its indexes, and those without indexes: they are outside of the list, and shared by
-- all rows of the document.
create function private.review_counts(p_extraction_id uuid, p_list text) returns table (indexes integer[], fields bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when starts_with(f.pattern, p_list) then
      f.indexes[:(char_length(p_list) - char_length(replace(p_list, '[]', ''))) / 2] else '{}' end, count(*)
  from public.fields as f where f.extraction_id = p_extraction_id and f.status in ('needs_review', 'unclear')
  group by 1
$$;

-- (The rows of an update are written by check_extraction, before the update: only then can it store their number.)
create function private.store_fields_of_insert() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_before public.extractions;
begin
  v_before.extracted_fields := '{}';
  v_before.evidence := '{}';
  v_before.confidences := '{}';
  v_before.locks := '{}';
  v_before.problems := '{}';
  v_before.accepted := '{}';
  v_before.min_confidences := '{}';
  update public.extractions set review_count = private.store_fields(v_before, new) where id = new.id;
  return null;
end $$;

create trigger store_fields after insert on public.extractions
  for each row when (new.extracted_fields <> '{}') execute function private.store_fields_of_insert();

-- extraction_problems.sql

-- What is wrong with the fields of extractions: found by the service, stored with the fields.

-- The problems of fields without a value that only a second reading has, and of lists with other rows.
create function private.second_reading_problems(p_problems jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_problems) where value = '"second_reading"'
$$;

-- Records what only a second reading has, in place of what an earlier one had. Other problems of a field come first.
create function private.record_second_reading(p_extraction_id uuid, p_others jsonb)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records a second reading.', 'PT403');
  update public.extractions
  set second_reading = p_others, problems =
    (select coalesce(jsonb_object_agg(key, 'second_reading'), '{}') from jsonb_object_keys(p_others) as key)
    || (problems - array(select jsonb_object_keys(private.second_reading_problems(problems))))
  where id = p_extraction_id and org_id in (select private.my_writable_org_ids())
    and (p_others, second_reading, private.second_reading_problems(problems)) <> ('{}', '{}', '{}');
end $$;

-- Records what the service found in the fields of one version, and which fields have no value that should have one.
-- The fields that its schema needs will be counted again. Does nothing if another version is the current one.
create function private.record_problems(p_extraction_id uuid, p_version integer, p_problems jsonb, p_is_valid boolean)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(private.is_service(), 'Only the service records problems.', 'PT403');
  update public.extractions as e set is_valid = p_is_valid, problems = (
      select coalesce(jsonb_object_agg(required, 'missing'), '{}')
      from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
      cross join unnest(s.required_fields) as required
      where v.id = e.schema_revid and not exists (
        select from public.fields where extraction_id = e.id and pattern_key = md5(required)::uuid and kind <> 'blank')
    ) || private.second_reading_problems(problems) || p_problems
  where id = p_extraction_id and version = p_version
    and (auth.uid() is null or org_id in (select private.my_writable_org_ids()));
  if found then
    -- (A locked schema is being changed, and counted with that; waiting for it could be a deadlock.)
    update public.schemas set recount = true where id = (
      select s.id from public.extractions as e join public.schema_versions as v on v.id = e.schema_revid
      join public.schemas as s on s.id = v.schema_id
      where e.id = p_extraction_id and not s.recount for no key update of s skip locked);
  end if;
end $$;

-- Counts again which fields of a schema should have a value: those that 80 % of its newest 1,000 completed extractions
-- have, if there are 5, until fewer than 75 % have them; `x-fieldmark.required` adds and removes some. Fields in lists do
-- not count. If the result changes, the extractions without a value there are checked again.
create function private.update_required_fields(p_schema_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema jsonb := (select schema from public.schema_versions where schema_id = p_schema_id order by number desc limit 1);
  v_before text[] := (select required_fields from public.schemas where id = p_schema_id);
  -- (Those of the newest versions, so that an index ends the search.)
  v_extractions uuid[] := array(
    select distinct on (document_id) id from (
      select e.* from public.schema_versions as v cross join lateral (
        select id, document_id, created_at from public.extractions
        where schema_revid = v.id and status = 'completed' order by created_at desc, id desc limit 1000) as e
      where v.schema_id = p_schema_id order by v.number desc, e.created_at desc limit 1000) as newest
    order by document_id, created_at desc, id desc);
  v_now text[];
  v_changed text[];
begin
  v_now := array(
    select name from (
      select pattern as name from unnest(v_extractions) as e (id) cross join lateral (
        select pattern from public.fields
        where row_key = uuid_hash_extended(e.id, hash_array_extended('{}'::integer[], 0)) and extraction_id = e.id
          and indexes = '{}' and kind not in ('container', 'blank') offset 0) as f
      where v_schema -> 'properties' ? substring(pattern from '^[^.[]+')
      group by pattern having cardinality(v_extractions) >= 5
        and count(*) >= cardinality(v_extractions) * case when pattern = any (v_before) then 0.75 else 0.8 end
      union select key from jsonb_each(v_schema #> '{x-fieldmark,required}') where value = 'true') as usual
    where coalesce(v_schema #> array['x-fieldmark', 'required', name], 'true') = 'true'
    order by name limit 1000);
  if v_now = v_before then
    return;
  end if;
  update public.schemas set required_fields = v_now where id = p_schema_id;
  v_changed := array((select unnest(v_now) except select unnest(v_before))
    union (select unnest(v_before) except select unnest(v_now)));
  update public.extractions as e set is_valid = null
  from public.schema_versions as v
  where v.schema_id = p_schema_id and e.schema_revid = v.id and e.is_valid is not null and exists (
    select from unnest(v_changed) as name where not exists (
      select from public.fields where extraction_id = e.id and pattern_key = md5(name)::uuid and kind <> 'blank'));
end $$;

-- Returns the schemas of all tenants with extractions that were checked since the last call.
create function private.schemas_to_count() returns setof uuid
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.schemas set recount = false
  where id in (select id from public.schemas where recount limit 100 for no key update skip locked) returning id
$$;

-- Extractions of all tenants that have not been checked since they changed: a front end wrote them, or the service ended.
-- Those that a run is still writing are left out.
create function private.extractions_to_check(p_limit integer) returns table (
  id uuid, org_id uuid, version integer, schema json, extracted_fields jsonb, evidence jsonb, locks jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.id, e.org_id, e.version, e.schema, e.extracted_fields, e.evidence, e.locks
  from public.extractions as e
  where e.schema is not null and e.is_valid is null and not exists (
    select from public.runs as r where r.extraction_id = e.id
      and r.status in ('queued', 'running', 'awaiting_approval', 'awaiting_runs'))
  order by e.updated_at limit p_limit
$$;

-- examples.sql

-- Examples: corrections by people in documents of the same schema, which the agent is shown.

create index extractions_of_schema on public.extractions (org_id, md5(schema::jsonb::text), updated_at desc)
  where schema is not null and locks <> '{}';

-- auto_creations.sql

-- Auto-creations: the schema, prompt and extraction that an agent suggests for a document after it was read.

create table public.auto_creations (
  document_id uuid primary key,
  org_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  -- No foreign key: its run may be deleted before it.
  run_id uuid not null unique,
  status text not null default 'running' check (status in ('running', 'proposed', 'accepted', 'rejected', 'failed')),
  error text,
  decided_by uuid,
  decided_at timestamptz,
  -- For matching later documents: the document's type and the labels beside its values. `matched`: the similar document.
  kind text check (char_length(kind) between 1 and 200),
  labels text[] not null default '{}' check (cardinality(labels) <= 200),
  matched jsonb check (jsonb_typeof(matched) = 'object'),
  schema_revid uuid,
  prompt_revid uuid,
  extraction_id uuid,
  check ((status = 'failed') = (error is not null)),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (schema_revid, org_id) references public.schema_versions (id, org_id) on delete set null (schema_revid),
  foreign key (prompt_revid, org_id) references public.prompt_versions (id, org_id) on delete set null (prompt_revid),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete set null (extraction_id)
);
create index auto_creations_org_id on public.auto_creations (org_id, created_at desc, document_id desc);
create index auto_creations_open on public.auto_creations (org_id, status, created_at desc, document_id desc)
  where status in ('running', 'proposed');
create index auto_creations_known_again on public.auto_creations (org_id, kind, created_at desc)
  where status in ('proposed', 'accepted') and schema_revid is not null;
create index auto_creations_schema_revid on public.auto_creations (schema_revid);
create index auto_creations_prompt_revid on public.auto_creations (prompt_revid);
create index auto_creations_extraction_id on public.auto_creations (extraction_id);
select private.protect_table('public.auto_creations', p_members_read => true, p_service => '{update}');
grant update (kind, labels, matched, schema_revid, prompt_revid, extraction_id) on public.auto_creations
  to authenticated;

-- Starts the agent for a document that was read, if requested. A run that cannot start is recorded as failed here and
-- does not stop the document from becoming ready. Archives are skipped; the files in them inherit the request.
create function private.auto_create() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_task private.agent_tasks;
  v_run_id uuid;
begin
  if new.media_type = 'application/zip'
    or coalesce(new.auto_create, not new.extract_when_read
      and (select auto_create from public.organisations where id = new.org_id)) is not true
  then
    return null;
  end if;
  for v_task in select * from private.agent_tasks where when_read loop
    v_run_id := private.new_id();
    begin
      -- Row policies do not apply to this insert. A user who left or became a viewer starts nothing.
      perform private.require(
        private.role_of(new.org_id, new.created_by) in ('owner', 'member'),
        'The user who uploaded the document can no longer start runs in this organisation.', 'PT409');
      insert into public.runs (id, org_id, created_by, agent, task, document_id, background)
      values (v_run_id, new.org_id, new.created_by, v_task.agent, v_task.task, new.id, true);
    exception when others then
      insert into public.auto_creations (document_id, org_id, created_by, run_id, status, error)
      values (
        new.id, new.org_id, new.created_by, v_run_id, 'failed',
        case when sqlstate like 'PT%' then sqlerrm else 'The agent could not be started.' end)
      on conflict (document_id) do nothing;
    end;
  end loop;
  return null;
end $$;

create trigger start_auto_create after update of status on public.documents
  for each row when (old.status = 'reading' and new.status = 'ready') execute function private.auto_create();

-- Records the run of an auto-create task. A document has one at a time, and none while a suggestion is open.
create function private.record_auto_creation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from private.agent_tasks where agent = new.agent and task = new.task and when_read) then
    return null;
  end if;
  insert into public.auto_creations as a (document_id, org_id, created_by, run_id)
  values (new.document_id, new.org_id, new.created_by, new.id) on conflict (document_id) do update set
    run_id = excluded.run_id, created_by = excluded.created_by, created_at = now(), status = 'running', error = null,
    decided_by = null, decided_at = null, kind = null, labels = '{}', matched = null, schema_revid = null,
    prompt_revid = null, extraction_id = null
  where a.status in ('rejected', 'failed');
  perform private.require(
    found,
    'This document already has a suggestion, or an agent is working on one. Decide the suggestion first.', 'PT409', 'proposed_already');
  return null;
end $$;

create trigger record_auto_creation after insert on public.runs
  for each row when (new.parent_run_id is null and new.document_id is not null and new.extraction_id is null)
  execute function private.record_auto_creation();

-- Deletes the extractions of a run and its children, except `p_but` and those in which a person set a value.
create function private.delete_extractions_of_run(p_run_id uuid, p_but uuid default null) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from public.extractions
  where run_id = p_run_id and id is distinct from p_but and locks = '{}' and document_type_by is null
$$;

-- Deletes what a run and its children created, except what others changed since: values that a user set, versions or
-- references of others. What is still referenced is hidden instead.
create function private.delete_created_by_run(p_run_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.delete_extractions_of_run(p_run_id);
  delete from public.document_tags where run_id = p_run_id;

  -- Locked first: a concurrent reference is either visible here, or waits and then fails.
  perform from public.prompts where run_id = p_run_id for update;
  perform from public.prompt_versions where prompt_id in (select id from public.prompts where run_id = p_run_id) for update;
  update public.prompts as p set deleted_at = coalesce(deleted_at, now())
  where run_id = p_run_id and not exists (
      select from public.prompt_versions where prompt_id = p.id and run_id is distinct from p_run_id);
  delete from public.prompts as p
  where run_id = p_run_id
    and not exists (
      select from public.prompt_versions as v
      where v.prompt_id = p.id and (
        v.run_id is distinct from p_run_id
        or exists (select from public.extractions as e where e.prompt_revid = v.id)));

  perform from public.schemas where run_id = p_run_id for update;
  perform from public.schema_versions where schema_id in (select id from public.schemas where run_id = p_run_id) for update;
  update public.schemas as s set deleted_at = coalesce(deleted_at, now())
  where run_id = p_run_id and not exists (
      select from public.schema_versions where schema_id = s.id and run_id is distinct from p_run_id);
  delete from public.schemas as s
  where run_id = p_run_id
    and not exists (select from public.prompt_versions as p where p.schema_id = s.id)
    and not exists (
      select from public.schema_versions as v
      where v.schema_id = s.id and (
        v.run_id is distinct from p_run_id
        or exists (select from public.extractions as e where e.schema_revid = v.id)));

  perform from public.tags where run_id = p_run_id for update;
  delete from public.tags as t
  where run_id = p_run_id
    and not exists (select from public.document_tags where tag_id = t.id)
    and not exists (select from public.prompt_versions as p where p.org_id = t.org_id and t.id = any (p.tag_ids));
end $$;

-- When the run ends, its results become a suggestion, or are deleted. Earlier extractions of the run are deleted.
create function private.end_auto_creation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_creation public.auto_creations;
  v_is_made boolean;
begin
  select * into v_creation from public.auto_creations where run_id = new.id and status = 'running' for no key update;
  if not found then
    return null;
  end if;
  v_is_made := new.status = 'completed' and exists (
    select from public.runs
    where extraction_id = v_creation.extraction_id and parent_run_id = new.id and status = 'completed');
  update public.auto_creations set status = case when v_is_made then 'proposed' else 'failed' end,
    error = case when not v_is_made then coalesce(new.error, 'No fields were extracted from the document.') end
  where run_id = new.id;
  if v_is_made then
    perform private.delete_extractions_of_run(new.id, v_creation.extraction_id);
  else
    perform private.delete_created_by_run(new.id);
  end if;
  return null;
end $$;

create trigger end_auto_creation after update of status on public.runs for each row when (
    new.status in ('completed', 'failed', 'cancelled') and old.status <> new.status and new.parent_run_id is null
    and new.document_id is not null and new.extraction_id is null)
  execute function private.end_auto_creation();

-- Deletes the suggested items of a document that is deleted before a decision.
create function private.delete_auto_creation_run() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.delete_created_by_run(old.run_id);
  return null;
end $$;

create trigger delete_auto_creation_run after delete on public.auto_creations
  for each row when (old.status in ('running', 'proposed')) execute function private.delete_auto_creation_run();

-- Accepts the suggestion for a document, or rejects it and deletes what its run created. Repeating a decision changes
-- nothing. A suggestion that uses a schema which is only suggested itself can be accepted only after that schema.
create function public.decide_auto_creation(p_document_id uuid, p_accepted boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_creation public.auto_creations;
  v_first uuid;
  v_refusal text;
  v_status text := case when p_accepted then 'accepted' when not p_accepted then 'rejected' end;
begin
  select * into v_creation from public.auto_creations
  where document_id = p_document_id and org_id in (select private.my_org_ids()) for update;
  perform private.check_org_writable(v_creation.org_id, 'proposal');
  v_refusal := private.approval_refusal_reason_for(v_creation.org_id, v_creation.created_by);
  if v_refusal in ('not_approver', 'second_person_needed') then
    raise exception '%', case v_refusal
        when 'not_approver' then 'Only owners can decide suggestions in this organisation.'
        else 'Someone else must decide this suggestion: the organisation requires a second person.' end
      using errcode = 'PT403', detail = v_refusal;
  end if;
  if v_creation.status = v_status then
    return;
  end if;
  if v_creation.status <> 'proposed' or v_status is null then
    raise exception 'There is no open suggestion for this document: its status is %.', v_creation.status using errcode = 'PT409';
  end if;
  if p_accepted then
    select a.document_id into v_first
    from public.schema_versions as v join public.auto_creations as a on a.run_id = v.run_id
    where v.id = v_creation.schema_revid and a.document_id <> p_document_id and a.status in ('running', 'proposed');
    perform private.require(
      not found,
      format('This suggestion uses a schema that is itself only suggested, for document %s. Decide that suggestion first.', v_first),
      'PT409', 'schema_proposed');
  end if;
  update public.auto_creations set status = v_status, decided_by = auth.uid(), decided_at = now()
  where document_id = p_document_id;
  if not p_accepted then
    perform private.delete_created_by_run(v_creation.run_id);
  end if;
end $$;

create function private.is_proposed(p_run_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p_run_id is not null and exists (
    select from public.auto_creations where run_id = p_run_id and status in ('running', 'proposed'))
$$;

-- uploads.sql

-- Uploads: which documents are extracted once they are read, and the rules that choose a schema or a table for them.

-- Rules of an organisation, in their order. The first that matches a document without a request of its own applies.
create table public.upload_rules (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  number integer not null check (number > 0),
  -- What a document must have: a type as the labels name it, a file name (`*` stands for any characters), and a part of
  -- a mail's sender. All that are set must match.
  document_type text check (char_length(document_type) between 1 and 200),
  filename text check (char_length(filename) between 1 and 200),
  sender text check (char_length(sender) between 1 and 200),
  -- What it becomes: an extraction under the latest version of a schema, or a row of a stack's table.
  schema_id uuid,
  stack_id uuid,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  unique (org_id, number),
  constraint has_a_condition check (num_nonnulls(document_type, filename, sender) > 0),
  constraint has_one_target check (num_nonnulls(schema_id, stack_id) = 1),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade,
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete cascade
);
create index upload_rules_schema_id on public.upload_rules (schema_id, org_id);
create index upload_rules_stack_id on public.upload_rules (stack_id, org_id);
select private.protect_table('public.upload_rules', p_members_read => true);

-- Replaces all rules of an organisation by these, in their order. Owners only.
create function public.set_upload_rules(p_org_id uuid, p_rules jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_owner(p_org_id),
    private.require(jsonb_typeof(p_rules) = 'array' and jsonb_array_length(p_rules) <= 50, 'Send a list of at most 50 rules.');
  -- Locked, so that two lists are not mixed.
  perform from public.organisations where id = p_org_id for no key update;
  delete from public.upload_rules where org_id = p_org_id;
  insert into public.upload_rules (org_id, number, document_type, filename, sender, schema_id, stack_id)
  select p_org_id, r.number, rule ->> 'document_type', rule ->> 'filename', rule ->> 'sender',
    (rule ->> 'schema_id')::uuid, (rule ->> 'stack_id')::uuid
  from jsonb_array_elements(p_rules) with ordinality as r (rule, number);
end $$;

-- Extracts a document that was read, if requested. A run that cannot start is recorded as failed, and can be repeated.
-- Archives are skipped; the files in them inherit the request.
create function private.extract_when_read() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_extraction_id uuid;
  v_refusal text;
begin
  -- (The request that uploaded it may have started one already.)
  if new.media_type = 'application/zip' or exists (select from public.extractions where document_id = new.id) or
    private.role_of(new.org_id, new.created_by) not in ('owner', 'member')
  then
    return null;
  end if;
  begin
    insert into public.extractions (org_id, created_by, user_id, document_id, schema_revid)
    values (new.org_id, new.created_by, new.created_by, new.id, new.extract_revid) returning id into v_extraction_id;
  exception when sqlstate 'PT409' then
    return null;  -- the schema was deleted
  end;
  begin
    insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, background)
    select new.org_id, new.created_by, agent, task, new.id, v_extraction_id, true
    from private.agent_tasks where task = 'extract';
  exception when sqlstate 'PT409' or sqlstate 'PT429' then
    get stacked diagnostics v_refusal = message_text;
    insert into public.runs (org_id, created_by, agent, task, document_id, extraction_id, background, status, error, finished_at)
    select new.org_id, new.created_by, agent, task, new.id, v_extraction_id, true, 'failed', v_refusal, now()
    from private.agent_tasks where task = 'extract';
    update public.extractions set status = 'failed' where id = v_extraction_id;
  end;
  return null;
end $$;

create trigger start_extraction after update of status on public.documents
  for each row when (old.status = 'reading' and new.status = 'ready' and new.extract_when_read)
  execute function private.extract_when_read();

-- current_extractions.sql

-- Which of a document's extractions count.

-- A document's extraction under each schema: the one with the lowest precedence, then the newest. It is current if its
-- precedence is below 2. Read by schema; or by schema and document, with `offset 0`: a join would read all of a schema.
create view private.schema_extractions with (security_invoker = true) as
  select distinct on (v.schema_id, e.document_id) v.schema_id, e.*
  from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
  where e.precedence < 3
  order by v.schema_id, e.document_id, e.precedence, e.created_at desc, e.id desc;
grant select on private.schema_extractions to authenticated;

-- The extractions that count: those that private.schema_extractions selects. One without a stored schema counts until
-- there is a later one.
create view private.current_by_schema with (security_invoker = true) as
  select e.id, e.org_id, e.document_id, e.created_at, e.status, e.review_count, e.reviewed_by
  from public.extractions as e left join public.schema_versions as v on v.id = e.schema_revid
  where e.precedence < 2 and case when v.id is not null
    then e.id = (select id from private.schema_extractions where schema_id = v.schema_id and document_id = e.document_id)
    else not exists (
      select from public.extractions as o where o.document_id = e.document_id
        and o.precedence < 2 and (-o.precedence, o.created_at, o.id) > (-e.precedence, e.created_at, e.id)) end;
grant select on private.current_by_schema to authenticated;

-- What the extractions of a document say about its stage. Security definer: users may not write this column. An extraction
-- is locked before its document, also by delete_document.
create function private.store_extraction_stage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_document_id uuid := coalesce(new.document_id, old.document_id);
  v_stage text := (
    select case
      when count(*) = 0 then 'ready'
      when bool_or(status <> 'completed' or review_count > 0) then 'needs_review'
      when bool_and(reviewed_by is not null) then 'reviewed'
      else 'extracted' end
    from private.current_by_schema where document_id = v_document_id);
begin
  update public.documents set extraction_stage = v_stage where id = v_document_id and extraction_stage <> v_stage;
  return null;
end $$;

create trigger store_extraction_stage after insert or delete on public.extractions
  for each row execute function private.store_extraction_stage();
create trigger store_changed_extraction_stage after update on public.extractions for each row when (
    (old.status, old.reviewed_by is null, old.review_count > 0, old.precedence, old.schema_revid)
    is distinct from (new.status, new.reviewed_by is null, new.review_count > 0, new.precedence, new.schema_revid))
  execute function private.store_extraction_stage();

-- A suggestion is decided, or made again by another run.
create function private.mark_suggestions() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.extractions set is_suggestion = private.is_proposed(run_id)
  where document_id = new.document_id and is_suggestion <> private.is_proposed(run_id);
  return null;
end $$;

create trigger mark_suggestions after insert or update of status, run_id on public.auto_creations
  for each row execute function private.mark_suggestions();

-- What happens to documents now: of several activities, the one with the lowest precedence is the document's stage. While
-- there is one, `extraction_stage` does not count.
create view private.document_activities with (security_invoker = true) as
  select org_id, document_id, 'extracting' as stage, 1 as precedence from public.runs
  where document_id is not null and extraction_id is not null and status in ('queued', 'running', 'awaiting_runs')
  union all
  select org_id, document_id, 'awaiting_approval', 2 from public.runs
  where document_id is not null and status = 'awaiting_approval'
  union all
  select org_id, document_id, 'extracting', 1 from public.auto_creations where status = 'running'
  union all
  select org_id, document_id, 'proposed', 3 from public.auto_creations where status = 'proposed';
grant select on private.document_activities to authenticated;

-- What search, figures and SQL use: a document's newest extraction that is completed.
create view public.current_extractions with (security_invoker = true) as
  select e.id, d.org_id, d.id as document_id, e.created_at, e.updated_at, e.document_type, e.schema_revid, e.version,
    e.extracted_fields, e.evidence, e.locks, e.status, e.review_count, e.reviewed_by
  from public.documents as d
  cross join lateral (
    select * from public.extractions as e
    where e.document_id = d.id and e.status = 'completed' and e.precedence < 2
    order by e.created_at desc, e.id desc limit 1) as e;
revoke all on public.current_extractions from anon, authenticated;
grant select on public.current_extractions to authenticated;

-- stack_table_rows.sql

-- The rows of stacks: each document with its extraction under the stack's schema.

-- The documents of stacks. `first_copy`: of the documents with the same bytes the one that was added first, so that
-- a row that is filled never becomes a duplicate. Read by stack; or by stack, organisation and content, with `offset 0`.
create view private.stack_copies with (security_invoker = true) as
  select s.stack_id, s.document_id, d.org_id, d.content_sha256, d.created_at as uploaded_at,
    first_value(s.document_id) over (
      partition by d.content_sha256, case when d.content_sha256 is null then d.id end, s.stack_id, d.org_id
      order by s.created_at, d.created_at, d.id) as first_copy
  from public.stack_documents as s join public.documents as d on d.id = s.document_id;
grant select on private.stack_copies to authenticated;

-- `state`: duplicate (a document that is longer in the stack has the same bytes), container (an archive, whose files have
-- rows; failed if some were left out), waiting, running, awaiting_approval, failed, stale (columns were added or changed
-- since), done, or incomplete (a run ended without completing the extraction).
create view public.stack_table_rows with (security_invoker = true) as
  select s.org_id, s.user_id, s.stack_id, s.document_id, t.schema_id, e.id as extraction_id, e.schema_revid, e.version,
    e.extracted_fields, e.confidence_scores, e.evidence, e.locks, first.document_id as duplicate_of, state.state,
    case when state in ('failed', 'waiting') then coalesce(d.error, r.error, case when skipped.code is not null
      then 'Some files of the archive were left out. The warnings of the document say which, and why.' end) end as error,
    case when state in ('failed', 'waiting') then coalesce(d.error_code, r.error_code, skipped.code) end as error_code
  from public.stack_documents as s
  join public.documents as d on d.id = s.document_id
  left join public.stack_tables as t on t.stack_id = s.stack_id
  left join public.schemas as i on i.id = t.schema_id
  left join lateral (
    select first_copy as document_id from private.stack_copies
    where stack_id = s.stack_id and org_id = s.org_id and content_sha256 = d.content_sha256
      and document_id = s.document_id and first_copy <> s.document_id offset 0) as first on true
  left join lateral (
    select * from private.schema_extractions
    where schema_id = t.schema_id and document_id = s.document_id offset 0) as e
    on first.document_id is null
  left join lateral (
    select * from public.runs where extraction_id = e.id order by created_at desc, id desc limit 1) as r on true
  left join lateral (
    select value ->> 'code' as code from jsonb_array_elements(d.warnings)
    where d.media_type = 'application/zip' and value ->> 'code' <> 'enclosed_apart' limit 1) as skipped on true
  cross join lateral (
    select case
      when first.document_id is not null then 'duplicate'
      when d.status = 'ready' and d.media_type = 'application/zip' then case when skipped.code is null then 'container' else 'failed' end
      when d.status = 'failed' and e.id is null then 'failed'
      when e.id is null or e.status <> 'completed' and r.status = 'queued' then 'waiting'
      when r.status in ('awaiting_approval', 'running') then r.status
      when r.status = 'awaiting_runs' then 'running'
      when e.status <> 'completed' and r.status in ('failed', 'cancelled') then
        case when r.error_code in ('cancelled', 'max_cost', 'out_of_credit') then 'waiting' else 'failed' end
      when e.status = 'failed' then 'failed'
      when i.differences -> e.schema_revid::text is distinct from '{}' and e.schema_revid <> (
        select id from public.schema_versions where schema_id = i.id order by number desc limit 1) then 'stale'
      when e.status = 'completed' then 'done'
      else 'incomplete' end as state
  ) as state;
revoke all on public.stack_table_rows from anon, authenticated;
grant select on public.stack_table_rows to authenticated;

-- search.sql

-- Search: an index of words by document chunk, ranked per organisation (BM25).
--
-- The index contains no text. A term is a number made with a secret of its organisation, so the index reveals nothing to
-- its readers. Ranks use the statistics of one organisation. A term number has four bytes: with eight the index is twice as
-- large. So of 300,000 terms of an organisation about ten pairs collide.

create table private.search_orgs (
  org_id uuid primary key references public.organisations (id) on delete cascade,
  number integer generated always as identity unique,
  seed bigint not null default ('x' || encode(substring(uuid_send(gen_random_uuid()) from 9), 'hex'))::bit(64)::bigint,
  chunks bigint not null default 0,
  -- The number of page chunks, and of terms in them, for the average length.
  page_chunks bigint not null default 0,
  terms bigint not null default 0,
  -- The languages of the chunks: a query is stemmed in each of them. (Names of Postgres' stemmers.)
  languages text[] not null default '{}'
);
select private.protect_table('private.search_orgs');

-- A chunk of a page, or (number 0) of the document: its name and its current extraction.
-- No foreign key to documents: the indexing job of a deleted document also updates the statistics.
create table private.search_chunks (
  document_id uuid not null,
  number integer not null check (number >= 0),
  org_number integer not null,
  page integer not null,
  first_word integer not null,
  last_word integer not null,
  language text not null,
  -- `keys` starts with the repeated terms; `counts` has their counts, one byte each.
  length integer not null,
  keys integer[] not null,
  counts bytea not null,
  primary key (document_id, number)
);
-- For the deletion of an organisation.
create index search_chunks_org_number on private.search_chunks (org_number);
-- Without a pending list: every query would read it.
create index search_chunks_keys on private.search_chunks using gin (keys) with (fastupdate = off);
-- Keys are read with the row, so they are stored inline; column statistics would mix organisations.
alter table private.search_chunks set (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
alter table private.search_chunks alter column keys set storage main, alter column counts set storage main,
  alter column keys set statistics 0;
select private.protect_table('private.search_chunks');

create table private.search_terms (
  org_number integer not null,
  key integer not null,
  chunks integer not null,
  primary key (org_number, key)
) with (fillfactor = 90);
select private.protect_table('private.search_terms');

create table private.indexing_queue (
  document_id uuid primary key,
  org_id uuid not null references public.organisations (id) on delete cascade,
  -- The number of the change: a document that changes while it is indexed stays queued.
  change bigint generated always as identity
);
create index indexing_queue_org_id on private.indexing_queue (org_id);
select private.protect_table('private.indexing_queue');

-- Queues a document for indexing. One job per organisation at a time, because the jobs update the same statistics.
create function private.queue_for_indexing(p_document_id uuid, p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_is_new boolean;
begin
  if exists (select from private.organisation_deletions where org_id = p_org_id)
    or not exists (select from public.organisations where id = p_org_id) then
    return;
  end if;
  insert into private.indexing_queue as due (document_id, org_id) values (p_document_id, p_org_id)
  on conflict (document_id) do update set change = default
  returning xmax = 0 into v_is_new;
  if v_is_new then
    perform private.enqueue('search', 'index_document', jsonb_build_object('document_id', p_document_id),
      p_org_id || '/search');
  end if;
end $$;

create function private.queue_changed_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.queue_for_indexing(coalesce(new.id, old.id), coalesce(new.org_id, old.org_id));
  return null;
end $$;

-- Queues the document of a changed extraction or auto-creation.
create function private.queue_document_of_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.queue_for_indexing(id, org_id) from public.documents
  where id = coalesce(new.document_id, old.document_id) and (tg_op = 'DELETE' or status = 'ready');
  return null;
end $$;

create trigger read_is_due after update of status on public.documents
  for each row when (old.status <> 'ready' and new.status = 'ready') execute function private.queue_changed_document();
create trigger renamed_is_due after update of filename on public.documents
  for each row when (old.filename <> new.filename and new.status = 'ready') execute function private.queue_changed_document();
create trigger deleted_is_due after delete on public.documents
  for each row when (old.status = 'ready') execute function private.queue_changed_document();
create trigger completed_is_due after update of status, extracted_fields, document_type on public.extractions
  for each row when (
    (old.status = 'completed' or new.status = 'completed') and (
      old.status <> new.status or old.extracted_fields <> new.extracted_fields
      or old.document_type is distinct from new.document_type))
  execute function private.queue_document_of_row();
create trigger deleted_is_due after delete on public.extractions
  for each row when (old.status = 'completed') execute function private.queue_document_of_row();
create trigger decided_is_due after update of status on public.auto_creations
  for each row when (new.status = 'accepted' and old.status <> new.status) execute function private.queue_document_of_row();

create function private.count_unindexed_documents(p_org_id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) from private.indexing_queue
  where org_id = p_org_id and p_org_id in (select private.my_org_ids())
$$;

-- Returns the stem of each term, without accents; null for stop words. One call for all terms is three times faster.
create function private.search_stems(p_language text, p_terms text[]) returns table (term text, stem text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select given, case when found.stem ~ '[^\x01-\x7f]' then
    normalize(regexp_replace(normalize(found.stem, NFD), '[\u0300-\u036f]', '', 'g'), NFC) else found.stem end
  from (select case when p_language <> 'simple' then (p_language || '_stem')::regdictionary end as of_it offset 0) as d
  cross join unnest(p_terms) as given
  cross join lateral (
    select case when d.of_it is null or given ~ '[0-9]' then given else (ts_lexize(d.of_it, given))[1] end as stem
    offset 0) as found
  where found.stem is not null
$$;

-- Returns what a queued document is indexed from. Called by the service, for all tenants.
create function private.search_source(p_document_id uuid) returns table (
  change bigint, org_id uuid, is_ready boolean, filename text, document_type text, texts text[])
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select due.change, due.org_id, coalesce(d.status = 'ready', false), d.filename, e.document_type, array(
    -- Short values outside lists.
    select text from public.fields
    where extraction_id = e.id and indexes = '{}' and kind in ('text', 'day') and char_length(text) <= 80 order by id limit 40)
  from private.indexing_queue as due
  left join public.documents as d on d.id = due.document_id and d.org_id = due.org_id
  left join public.current_extractions as e on e.document_id = d.id
  where due.document_id = p_document_id
$$;

create function private.search_words(p_document_id uuid, p_after integer, p_pages integer)
returns table (number integer, words text[])
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select number, array(select word ->> 0 from jsonb_array_elements(words) with ordinality as w (word, n) order by n)
  from public.document_pages where document_id = p_document_id and number > p_after order by number limit p_pages
$$;

-- Replaces the chunks of a document that changed, and updates the statistics. Returns false if the document changed
-- meanwhile.
create function private.write_search_chunks(p_document_id uuid, p_change bigint, p_chunks jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  v_org_id uuid := (select org_id from private.indexing_queue where document_id = p_document_id);
  v_org private.search_orgs;
  v_chunks private.search_chunks[] := array[]::private.search_chunks[];
  v_old private.search_chunks[];
  v_new private.search_chunks[];
  v_new_keys integer[];
  v_old_keys integer[];
begin
  if v_org_id is null then
    return true;
  end if;
  insert into private.search_orgs (org_id) values (v_org_id) on conflict do nothing;
  select * into v_org from private.search_orgs where org_id = v_org_id for update;
  perform from public.documents where id = p_document_id and org_id = v_org_id and status = 'ready' for key share;
  if found then
    select coalesce(array_agg(row(p_document_id, p.number, v_org.number, p.page, p.first_word, p.last_word, p.language,
      p.length, array(select (hashtextextended(term, v_org.seed) >> 32)::integer
        from unnest(p.terms) with ordinality as t (term, n) order by n),
      decode(p.counts, 'hex'))::private.search_chunks), '{}')
    into v_chunks
    from jsonb_to_recordset(p_chunks) as p (
      number integer, page integer, first_word integer, last_word integer, language text, length integer, terms text[],
      counts text);
  end if;

  -- A chunk that stays as it is costs nothing: its keys are dear to write.
  with removed as (
    delete from private.search_chunks as p where document_id = p_document_id and p <> all (v_chunks) returning p
  )
  select coalesce(array_agg(p), '{}') into v_old from removed;
  with added as (
    insert into private.search_chunks as p select (unnest(v_chunks)).* on conflict do nothing returning p
  )
  select coalesce(array_agg(p), '{}') into v_new from added;
  with each as (
    select (unnest(v_new)).*, 1 as n union all select (unnest(v_old)).*, -1
  )
  update private.search_orgs set
    chunks = chunks + (select coalesce(sum(n), 0) from each),
    page_chunks = page_chunks + (select coalesce(sum(n), 0) from each where number > 0),
    terms = terms + (select coalesce(sum(n * length), 0) from each where number > 0),
    languages = array(select unnest(languages) union select language from each where n > 0 order by 1)
  where org_id = v_org_id;
  if exists (select from private.search_embedder)
    and exists (select from unnest(v_old || v_new) where number > 0) then
    -- (Waits for a concurrent writer of vectors of the old chunks.)
    insert into private.embedding_queue as due (org_id, document_id) values (v_org_id, p_document_id)
    on conflict (org_id, document_id) do update set change = default, tries = 0, taken_until = null;
    delete from private.search_vectors
    where org_number = v_org.number and document_id = p_document_id and number in (select number from unnest(v_old));
  end if;
  v_new_keys := array(select key from unnest(v_new) cross join lateral (select distinct unnest(keys)) as k (key));
  v_old_keys := array(select key from unnest(v_old) cross join lateral (select distinct unnest(keys)) as k (key));

  -- Only terms in more than one chunk are counted. The others are looked up in the index.
  with changed as (
    select key, sum(n) as n
    from (select unnest(v_new_keys) as key, 1 as n union all select unnest(v_old_keys), -1) as each group by key
  ), known as (
    update private.search_terms as t set chunks = t.chunks + c.n from changed as c
    where t.org_number = v_org.number and t.key = c.key and c.n <> 0
  )
  insert into private.search_terms (org_number, key, chunks)
  select v_org.number, c.key, there.chunks
  from changed as c
  cross join lateral (
    select count(*) as chunks from private.search_chunks as p
    where p.keys @> array[c.key] and p.org_number = v_org.number) as there
  where c.n > 0 and there.chunks > 1
    and not exists (select from private.search_terms as t where t.org_number = v_org.number and t.key = c.key);
  delete from private.search_terms where org_number = v_org.number and key = any (v_old_keys) and chunks <= 1;
  delete from private.indexing_queue where document_id = p_document_id and change = p_change;
  return found;
end $$;

-- Gives up after too many failed attempts. The entries of a document stay, but nothing of a deleted one may.
create function private.abandon_indexing(p_document_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from public.documents where id = p_document_id) then
    perform private.write_search_chunks(document_id, change, '[]')
    from private.indexing_queue where document_id = p_document_id;
  end if;
  delete from private.indexing_queue where document_id = p_document_id;
end $$;

create type private.search_hit as (
  document_id uuid, number integer, page integer, first_word integer, last_word integer, language text, score real);

-- Returns the best chunks for a query in an organisation that the caller can read; with p_documents only of these.
-- Security definer: row security prevents the use of GIN indexes, and statistics cover the whole organisation. So
-- it checks the caller itself; members read all documents of their organisation.
-- Rare terms select candidates until p_most are found; frequent terms only add to their scores, so the time does not
-- grow with the organisation. If rare terms find few, chunks with all frequent terms are added, then with half of them,
-- etc. Without p_with_fields the document chunks (names, extracted values) are ignored.
create function private.search(
  p_org_id uuid, p_terms text[], p_documents uuid[] default null, p_most integer default 4000, p_with_fields boolean default true
) returns setof private.search_hit
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_memoize = off set jit = off
-- Planned once per connection: planning takes as long as a small search, and parameters never change the plan.
set plan_cache_mode = force_generic_plan as $$
declare
  -- The usual BM25 values. Document chunks count as of average length.
  k1 constant real := 1.5;
  b constant real := 0.75;
  v_org private.search_orgs;
  v_average real;
  v_keys integer[];
  v_weights real[];
  v_chunks bigint[];
  v_rare integer := 0;
  v_candidates bigint := 0;
  v_required integer;
  v_is_filtered constant boolean := coalesce(cardinality(p_documents) <= p_most / 2, false);
  v_more tid[] := array[]::tid[];
begin
  select * into v_org from private.search_orgs where org_id = p_org_id and p_org_id in (select private.my_org_ids());
  if not found or v_org.chunks = 0 then
    return;
  end if;
  v_average := greatest(v_org.terms::real / greatest(v_org.page_chunks, 1), 1);
  select array_agg(key order by chunks, key), array_agg(chunks order by chunks, key),
    array_agg(ln(1 + (v_org.chunks - chunks + 0.5) / (chunks + 0.5)) order by chunks, key)
  into v_keys, v_chunks, v_weights
  from (
    select asked.key, coalesce(t.chunks, 1) as chunks
    from (
      select distinct (hashtextextended(word.stem, v_org.seed) >> 32)::integer as key
      from unnest(v_org.languages) as language, private.search_stems(language, p_terms) as word) as asked
    left join private.search_terms as t on t.org_number = v_org.number and t.key = asked.key) as each;
  if v_keys is null then
    return;
  end if;
  if not v_is_filtered then
    while v_rare < cardinality(v_keys) and v_candidates + v_chunks[v_rare + 1] <= p_most loop
      v_rare := v_rare + 1;
      v_candidates := v_candidates + v_chunks[v_rare];
    end loop;
    v_required := cardinality(v_keys) - v_rare;
    while v_required > 0 and v_candidates < greatest(p_most / 20, 1) loop
      select coalesce(array_agg(one.ctid), '{}') into v_more
      from (
        select ctid from private.search_chunks
        where keys @> v_keys[v_rare + 1:v_rare + v_required] and org_number = v_org.number and (p_with_fields or number > 0)
          and (p_documents is null or document_id in (select unnest(p_documents)))
        limit greatest(p_most / 4, 1) offset 0) as one;  -- each is scored completely, which takes longer
      v_candidates := cardinality(v_more);
      v_required := v_required / 2;
    end loop;
  end if;

  return query
    -- (Rows are fetched by ctid: by key would take four times as long. This is safe because the function is
    -- stable: it sees one snapshot, that of the calling statement.)
    with by_rare_term as (
      select p.at, p.document_id, p.number,
        t.weight * tf.n * (k1 + 1) / (tf.n + k1 * (1 - b + b * case when p.number = 0 then 1 else p.length / v_average end))
          as score
      from unnest(v_keys[:v_rare], v_weights[:v_rare]) as t (key, weight)
      cross join lateral (
        select one.ctid as at, one.document_id, one.number, one.length, one.counts,
          array_position(one.keys, t.key) as place
        from private.search_chunks as one
        where one.keys @> array[t.key] and one.org_number = v_org.number
          and (p_with_fields or one.number > 0) and (p_documents is null or one.document_id in (select unnest(p_documents)))
        limit p_most offset 0) as p
      cross join lateral (
        -- (`offset 0` makes Postgres compute it once instead of inlining it.)
        select case when p.place <= length(p.counts) then get_byte(p.counts, p.place - 1) else 1 end offset 0) as tf (n)
    ), summed as (
      select at, document_id, number, sum(score) as score from by_rare_term group by at, document_id, number
    ), candidate as (
      select s.at, s.document_id, s.number, s.score from (
        -- The score of the document chunk counts for each of its chunks.
        select *, score + case when number > 0 then
          coalesce(max(score) filter (where number = 0) over (partition by document_id), 0) else 0 end as in_all
        from summed) as s
      order by s.in_all desc limit 500
    ), chosen as (
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, c.score,
        v_rare as scored_terms
      from candidate as c join private.search_chunks as p on p.ctid = c.at
      union all
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, 0, 0
      from (
        (select unnest(v_more) as at
        union
        select of_fields.ctid from (select distinct document_id from candidate) as c
        join private.search_chunks as of_fields on of_fields.document_id = c.document_id and of_fields.number = 0 and p_with_fields)
        except
        select at from candidate) as c
      join private.search_chunks as p on p.ctid = c.at
      union all
      select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, p.length, p.keys, p.counts, 0, 0
      from private.search_chunks as p
      where v_is_filtered and p.document_id = any (p_documents) and p.org_number = v_org.number and (p_with_fields or p.number > 0)
    ), scored as (
      select c.document_id, c.number, c.page, c.first_word, c.last_word,
        c.language, c.score + coalesce(rest.score, 0) as score
      from chosen as c
      left join lateral (
        select sum(t.weight * tf.n * (k1 + 1)
          / (tf.n + k1 * (1 - b + b * case when c.number = 0 then 1 else c.length / v_average end))) as score
        from unnest(v_keys[c.scored_terms + 1:], v_weights[c.scored_terms + 1:]) as t (key, weight)
        cross join lateral (select array_position(c.keys, t.key) offset 0) as a (place)
        cross join lateral (
          select case when a.place <= length(c.counts) then get_byte(c.counts, a.place - 1) else 1 end
          offset 0) as tf (n)
        where a.place is not null
      ) as rest on true
    ), answer as (
      select r.*, max(r.score) filter (where r.number = 0) over of_document as document_score,
        count(*) filter (where r.number > 0) over of_document as page_chunks
      from scored as r where r.score > 0
      window of_document as (partition by r.document_id)
    )
    select a.document_id, a.number, a.page, a.first_word, a.last_word, a.language, (a.score + coalesce(a.document_score, 0))::real
    from answer as a where a.number > 0
    union all
    -- A document found only by its document chunk is represented by its first chunk.
    select p.document_id, p.number, p.page, p.first_word, p.last_word, p.language, a.score::real
    from answer as a join private.search_chunks as p on p.document_id = a.document_id and p.number = 1
    where a.number = 0 and a.page_chunks = 0;
end $$;

-- search_vectors.sql

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

-- changes.sql

-- Changes: the outbox. Each event that another system cares about is a row, written by a trigger in the transaction that
-- it reports. GET /api/changes reads the rows; webhooks.sql sends them.

create table public.changes (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  -- The order of writing. (Rows about one document are written one after the other, since its row or that of its
  -- extraction is locked.) A row may be committed after a later one.
  written bigint generated always as identity,
  -- 1, 2, 3 … in the feed of the organisation, given after the commit by publish_changes, so that a reader who has seen a
  -- number never misses a lower one.
  number bigint check (number > 0),
  type text not null check (type in (
    'document.ready', 'document.failed', 'document.deleted', 'extraction.completed', 'extraction.reviewed',
    'extraction.changed', 'run.awaiting_approval', 'run.completed', 'run.failed', 'run.cancelled', 'table.completed',
    'quota.warning', 'quota.reached', 'webhook.test', 'webhook.disabled')),
  -- What it is about. No foreign keys: a change is kept when that is deleted.
  document_id uuid,
  extraction_id uuid,
  -- Also the run that wrote the extraction.
  run_id uuid,
  stack_id uuid,
  webhook_id uuid,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  unique (org_id, number),
  unique (id, org_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
create index changes_unpublished on public.changes (org_id, written) where number is null;
create index changes_created_at on public.changes (created_at);
-- Nothing in it is private: runs of conversations are left out.
select private.protect_table('public.changes', p_members_read => true);

create function private.record_document_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id) values (new.org_id, 'document.' || new.status, new.id);
  return null;
end $$;
create trigger record_document_change after update of status on public.documents
  for each row when (new.status in ('ready', 'failed') and new.status <> old.status)
  execute function private.record_document_change();

create function private.record_deleted_documents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id)
  select org_id, 'document.deleted', id from gone
  where org_id in (select o.id from public.organisations as o)
    and org_id not in (select d.org_id from private.organisation_deletions as d);
  return null;
end $$;
create trigger record_deleted_documents after delete on public.documents
  referencing old table as gone for each statement execute function private.record_deleted_documents();

create function private.record_extraction_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id, extraction_id, run_id)
  select new.org_id, 'extraction.' || event, new.document_id, new.id, private.this_root_run()
  from (values
    (1, 'changed', tg_op = 'UPDATE' and old.status = 'completed' and old.version <> new.version),
    (2, 'completed', new.status = 'completed' and (tg_op = 'INSERT' or old.status <> 'completed')),
    (3, 'reviewed', new.reviewed_by is not null and (tg_op = 'INSERT' or old.reviewed_by is distinct from new.reviewed_by))
  ) as events (step, event, has_happened)
  where has_happened order by step;
  return null;
end $$;
create trigger record_inserted_extraction after insert on public.extractions
  for each row when (new.status = 'completed' and not new.is_trial) execute function private.record_extraction_change();
create trigger record_changed_extraction after update on public.extractions
  for each row when (not new.is_trial and (
    new.status <> old.status or new.reviewed_by is distinct from old.reviewed_by
    or (old.status = 'completed' and new.version <> old.version)))
  execute function private.record_extraction_change();

-- A child run is a part of its parent, but a person has to decide its calls. A filled table is a change of its own.
create function private.record_run_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into public.changes (org_id, type, document_id, extraction_id, run_id, stack_id)
  select new.org_id, event, new.document_id, new.extraction_id, new.root_run_id, new.stack_id
  from (values ('table.completed', new.status = 'completed' and new.task = 'stack' and new.stack_id is not null),
    ('run.' || new.status, true)) as events (event, has_happened)
  where has_happened
    -- (A member whose organisation is deleted leaves it, which cancels runs.)
    and exists (select from public.organisations where id = new.org_id)
    and not exists (select from public.extractions where id = new.extraction_id and is_trial);
  return null;
end $$;
create trigger record_run_change after update of status on public.runs
  for each row when (
    new.status <> old.status and new.root_thread_id is null
    and (new.status = 'awaiting_approval'
      or (new.parent_run_id is null and new.status in ('completed', 'failed', 'cancelled'))))
  execute function private.record_run_change();

-- What a change is about, as it is now. `fields` are the reviewed ones, `initial_fields` those before a person first
-- changed any, `edits` the last 1,000 changes by people.
create function private.change_data(p_change public.changes) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_strip_nulls(jsonb_build_object(
      'document_id', p_change.document_id, 'extraction_id', p_change.extraction_id, 'run_id', p_change.run_id,
      'stack_id', p_change.stack_id, 'webhook_id', p_change.webhook_id))
    || coalesce((select jsonb_object_agg(name, about) from (values
      ('document', (
        select jsonb_build_object('id', d.id, 'filename', d.filename, 'external_id', d.external_id, 'metadata', d.metadata,
          'status', d.status, 'error', d.error, 'error_code', d.error_code, 'page_count', d.page_count)
        from public.documents as d where d.id = p_change.document_id)),
      ('extraction', (
        select jsonb_build_object('id', e.id, 'status', e.status, 'version', e.version,
          'document_type', e.document_type, 'schema', s.name, 'schema_revid', e.schema_revid,
          'is_reviewed', e.reviewed_by is not null, 'review_count', e.review_count, 'fields', e.extracted_fields,
          'initial_fields', coalesce((
            select private.fields_at(e.id, min(j.version) - 1) from public.extraction_journal as j
            where j.extraction_id = e.id and j.actor = 'user' having count(*) > 0), e.extracted_fields),
          'edits', coalesce((
            select jsonb_agg(to_jsonb(edit) order by edit.number) from (
              select id as number, path, old, new, created_by, created_at from public.extraction_journal
              where extraction_id = e.id and actor = 'user' order by id desc limit 1000) as edit), '[]'))
        from public.extractions as e
          left join public.schema_versions as v on v.id = e.schema_revid left join public.schemas as s on s.id = v.schema_id
        where e.id = p_change.extraction_id)),
      ('run', (
        select jsonb_build_object('id', r.id, 'task', r.task, 'status', r.status, 'error', r.error,
          'error_code', r.error_code, 'answer', r.answer, 'idempotency_key', r.idempotency_key)
        from public.runs as r where r.id = p_change.run_id and p_change.type ~ '^(run|table)\.')),
      ('table', (
        select jsonb_build_object('id', t.id, 'name', t.name) from public.stacks as t where t.id = p_change.stack_id)),
      ('storage', (
        select jsonb_build_object('documents', u.documents, 'bytes', u.bytes, 'max_documents', l.max_documents,
          'max_bytes', l.max_bytes)
        from public.storage_usage as u left join public.credit_limits as l on l.org_id = u.org_id
        where u.org_id = p_change.org_id and p_change.type like 'quota.%'))
    ) as parts (name, about) where about is not null), '{}')
$$;

-- Gives committed changes their numbers, and queues them for the webhooks of their organisation. Returns how many were
-- published; none while another worker does it.
create function private.publish_changes() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
  v_ids uuid[];
  v_count integer := 0;
begin
  -- (First without the lock, and so without a write.)
  if not exists (select from public.changes where number is null) or not private.lock_maintenance_task('changes') then
    return 0;
  end if;
  for v_org in select distinct org_id from public.changes where number is null limit 100 loop
    with due as (
      select id, row_number() over (order by written) as place from (
        select id, written from public.changes where org_id = v_org and number is null order by written limit 1000) as first
    ), published as (
      update public.changes as c set number = due.place + (
        select coalesce(max(number), 0) from public.changes where org_id = v_org)
      from due where c.id = due.id returning c.id
    )
    select array_agg(id) into v_ids from published;
    insert into public.webhook_deliveries (org_id, webhook_id, change_id)
    select v_org, w.id, c.id
    from public.changes as c join public.webhooks as w on w.org_id = v_org and w.is_enabled
    where c.id = any (v_ids)
      and case
        when c.type = 'webhook.test' then w.id = c.webhook_id
        else (w.types = '{}' or c.type = any (w.types)) and (w.run_id is null or w.run_id = c.run_id) end
    order by c.number;
    v_count := v_count + coalesce(cardinality(v_ids), 0);
  end loop;
  return v_count;
end $$;

-- webhooks.sql

-- Webhooks: where changes are sent, and each delivery with its attempts. Signed as Standard Webhooks describe it.

create table public.webhooks (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation() references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  url text not null check (url ~* '^https?://[^/]' and char_length(url) <= 2000),
  -- The types of changes; none: all.
  types text[] not null default '{}' check (cardinality(types) <= 50),
  -- For the callback of one request: only changes by this run. It is deleted with the run.
  run_id uuid,
  -- `whsec_` and 24 to 64 bytes as base64. No role can read it: it is returned once, by the service that made it.
  secret text not null check (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$'),
  -- Also signs until this time, after the secret was replaced.
  previous_secret text,
  previous_secret_until timestamptz,
  is_enabled boolean not null default true,
  -- Why it is disabled: `failing` for days, `gone` (the receiver answered 410), or null: a person did it.
  disabled_reason text check (disabled_reason in ('failing', 'gone')),
  -- When the first of the attempts failed that all failed since.
  failing_since timestamptz,
  unique (id, org_id),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
);
create index webhooks_org_id on public.webhooks (org_id, created_at desc, id desc);
create index webhooks_run_id on public.webhooks (run_id, org_id);
select private.protect_table('public.webhooks');
grant select (id, org_id, created_by, created_at, url, types, run_id, previous_secret_until, is_enabled, disabled_reason,
  failing_since), insert (id, org_id, url, types, run_id, secret), update (url, types, secret, is_enabled)
  on public.webhooks to authenticated;
create policy "owners see webhooks, and who started a run its callback" on public.webhooks
  for select to authenticated using (
    org_id in (select private.my_owned_org_ids())
    or (run_id is not null and created_by = (select auth.uid()) and org_id in (select private.my_org_ids())));
create policy "owners send changes, and who starts a run those of the run" on public.webhooks for insert to authenticated
  with check (
    created_by = (select auth.uid()) and (
      (run_id is null and org_id in (select private.my_owned_org_ids()))
      or (run_id is not null and org_id in (select private.my_writable_org_ids())
        and exists (select from public.runs as r where r.id = run_id and r.created_by = (select auth.uid())))));
create policy "owners change where changes are sent" on public.webhooks
  for update to authenticated using (org_id in (select private.my_owned_org_ids()));

-- Keeps the replaced secret for a day, and forgets failures when a person enables a webhook again.
create function private.check_webhook() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    -- Locks the organisation, so that concurrent requests are counted.
    perform from public.organisations where id = new.org_id for no key update;
    perform private.require(
      new.run_id is not null or (select count(*) from public.webhooks where org_id = new.org_id and run_id is null) < 20,
      'The organisation has 20 webhooks, the maximum. Delete one first.', 'PT409', 'too_many');
    return new;
  end if;
  if new.secret <> old.secret then
    new.previous_secret := old.secret;
    new.previous_secret_until := now() + interval '1 day';
  end if;
  if new.is_enabled and not old.is_enabled then
    new.disabled_reason := null;
    new.failing_since := null;
  end if;
  return new;
end $$;
create trigger check_webhook before insert or update on public.webhooks
  for each row execute function private.check_webhook();

create function public.delete_webhook(p_webhook_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.webhooks where id = p_webhook_id and org_id in (select private.my_owned_org_ids());
  perform private.check_found(found, 'webhook');
end $$;

-- Sends the change `webhook.test` to one webhook.
create function public.test_webhook(p_webhook_id uuid) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_webhook public.webhooks;
  v_id uuid;
begin
  select * into v_webhook from public.webhooks
  where id = p_webhook_id and org_id in (select private.my_owned_org_ids());
  perform private.check_found(found, 'webhook');
  perform private.require(v_webhook.is_enabled, 'The webhook is disabled. Enable it first.', 'PT409');
  insert into public.changes (org_id, type, webhook_id) values (v_webhook.org_id, 'webhook.test', p_webhook_id)
  returning id into v_id;
  return v_id;
end $$;

create table public.webhook_deliveries (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  webhook_id uuid not null,
  change_id uuid not null,
  created_at timestamptz not null default now(),
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts integer not null default 0 check (attempts >= 0),
  -- When it is sent next; while it is being sent: when another process may try.
  due_at timestamptz not null default now(),
  attempted_at timestamptz,
  -- The HTTP status of the last attempt, or why it got none.
  http_status integer,
  error_code text,
  unique (webhook_id, change_id),
  foreign key (webhook_id, org_id) references public.webhooks (id, org_id) on delete cascade,
  foreign key (change_id, org_id) references public.changes (id, org_id) on delete cascade
);
create index webhook_deliveries_due on public.webhook_deliveries (webhook_id, due_at) where status = 'pending';
create index webhook_deliveries_webhook_id on public.webhook_deliveries (webhook_id, created_at desc, id desc);
create index webhook_deliveries_change_id on public.webhook_deliveries (change_id, org_id);
select private.protect_table('public.webhook_deliveries');
grant select, update (status, attempts, due_at) on public.webhook_deliveries to authenticated;
create policy "who sees a webhook sees what was sent" on public.webhook_deliveries for select to authenticated
  using (exists (select from public.webhooks as w where w.id = webhook_id));
create policy "who sees a webhook sends it again" on public.webhook_deliveries for update to authenticated
  using (org_id in (select private.my_writable_org_ids()) and exists (select from public.webhooks as w where w.id = webhook_id))
  with check (status = 'pending');

-- Leases deliveries that are due: at most 4 of a webhook and 8 of an organisation, so that slow receivers do not delay
-- those of others, and none of these organisations. One that is not reported within the lease is sent again, with the same id.
create function private.lease_deliveries(p_most integer, p_busy uuid[], p_lease interval) returns table (
  id uuid, org_id uuid, url text, secrets text[], change_id uuid, type text, created_at timestamptz, attempts integer,
  attempted_at timestamptz, data jsonb)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with due as (
    select d.id, row_number() over (partition by w.org_id) as place from public.webhooks as w cross join lateral (
      select n.id from public.webhook_deliveries as n
      where n.webhook_id = w.id and n.status = 'pending' and n.due_at <= now()
      order by n.due_at limit 4 for update of n skip locked) as d
    where w.is_enabled and w.org_id <> all (p_busy)
  ), leased as (
    update public.webhook_deliveries as d set attempts = d.attempts + 1, attempted_at = now(), due_at = now() + p_lease
    from (select id from due where place <= 8 limit p_most) as first where d.id = first.id returning d.*
  )
  select d.id, d.org_id, w.url, array_remove(array[
      w.secret, case when w.previous_secret_until > now() then w.previous_secret end], null),
    c.id, c.type, c.created_at, d.attempts, d.attempted_at, private.change_data(c)
  from leased as d join public.webhooks as w on w.id = d.webhook_id join public.changes as c on c.id = d.change_id
$$;

-- Records an attempt: delivered, or to be sent again after `p_retry_after` (null: not any more). A webhook of which all
-- attempts failed for five days is disabled, which is a change itself.
create function private.record_delivery(
  p_delivery_id uuid, p_http_status integer, p_error_code text, p_retry_after interval
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_is_delivered boolean := coalesce(p_http_status between 200 and 299, false);
  v_webhook uuid;
begin
  update public.webhook_deliveries set http_status = p_http_status, error_code = p_error_code,
    status = case when v_is_delivered then 'delivered' when p_retry_after is null then 'failed' else 'pending' end,
    due_at = now() + coalesce(p_retry_after, '0')
  where id = p_delivery_id and status = 'pending' returning webhook_id into v_webhook;
  if v_is_delivered then
    update public.webhooks set failing_since = null where id = v_webhook and failing_since is not null;
    return;
  end if;
  update public.webhooks set failing_since = now() where id = v_webhook and failing_since is null;
  with disabled as (
    update public.webhooks set is_enabled = false,
      disabled_reason = case when p_http_status = 410 then 'gone' else 'failing' end
    where id = v_webhook and is_enabled and (p_http_status = 410 or failing_since < now() - interval '5 days')
    returning id, org_id
  )
  insert into public.changes (org_id, type, webhook_id) select org_id, 'webhook.disabled', id from disabled;
end $$;

-- sources.sql

-- Sources: buckets and mailboxes whose files become documents, and each object that was looked at.

create table public.sources (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation() references public.organisations (id) on delete cascade,
  -- The documents are theirs. Nothing is taken when they leave the organisation or become a viewer.
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  kind text not null check (kind in ('bucket', 'mailbox')),
  -- `https://host/bucket` or `imaps://host`. It never changes: the secret would be sent to another server.
  address text not null check (address ~* '^(https?|imaps)://[^/]' and char_length(address) <= 2000),
  -- The beginning of the objects' names, or the folder of the mailbox.
  folder text not null default '' check (char_length(folder) <= 500),
  username text not null check (char_length(username) between 1 and 500),
  -- No role can read it: only `lease_sources` returns it, to the service.
  secret text not null check (char_length(secret) between 1 and 5000),
  -- What happens to each document: a schema (name, id or version; empty: without one), a stack to add it to.
  extract text check (char_length(extract) <= 200),
  stack_id uuid,
  is_paused boolean not null default false,
  -- When the service looks next; while it looks: when another process may.
  due_at timestamptz not null default now(),
  -- Where it goes on: the last name of the listing, or the mailbox's state. Null: from the start.
  position text,
  attempts integer not null default 0 check (attempts >= 0),
  error_code text,
  failing_since timestamptz,
  check ((error_code is null) = (failing_since is null)),
  -- When all that was there had been looked at.
  checked_at timestamptz,
  last_object text,
  last_object_at timestamptz,
  taken bigint not null default 0 check (taken >= 0),
  -- {reason: number}
  skipped jsonb not null default '{}' check (jsonb_typeof(skipped) = 'object'),
  unique (id, org_id),
  foreign key (stack_id, org_id) references public.stacks (id, org_id) on delete set null (stack_id)
);
create index sources_org_id on public.sources (org_id, created_at desc, id desc);
create index sources_stack_id on public.sources (stack_id, org_id);
create index sources_due_at on public.sources (due_at) where not is_paused;
select private.protect_table('public.sources');
grant select (id, org_id, created_by, created_at, kind, address, folder, username, extract, stack_id, is_paused, due_at,
  error_code, failing_since, checked_at, last_object, last_object_at, taken, skipped),
  insert (id, org_id, kind, address, folder, username, secret, extract, stack_id),
  update (secret, extract, stack_id, is_paused) on public.sources to authenticated;
create policy "owners see where documents come from" on public.sources for select to authenticated
  using (org_id in (select private.my_owned_org_ids()));
create policy "owners add sources of their own" on public.sources for insert to authenticated
  with check (created_by = (select auth.uid()) and org_id in (select private.my_owned_org_ids()));
create policy "owners change sources of their own" on public.sources for update to authenticated
  using (created_by = (select auth.uid()) and org_id in (select private.my_owned_org_ids()));

-- Objects and mails that could not be taken. They delay no others: each is tried again when it is due, until it is given
-- up (due_at null).
create table public.source_failures (
  source_id uuid not null,
  org_id uuid not null,
  -- As in private.source_objects, but a mail's is `UIDVALIDITY:UID`: it may not have been read.
  name text not null check (octet_length(name) between 1 and 1024),
  version text not null check (octet_length(version) <= 200),
  error_code text not null,
  attempts integer not null default 1 check (attempts >= 0),
  attempted_at timestamptz not null default now(),
  due_at timestamptz,
  primary key (source_id, name, version),
  foreign key (source_id, org_id) references public.sources (id, org_id) on delete cascade
);
create index source_failures_due_at on public.source_failures (source_id, due_at);
select private.protect_table('public.source_failures');
grant select on public.source_failures to authenticated;
create policy "owners see what could not be taken" on public.source_failures for select to authenticated
  using (org_id in (select private.my_owned_org_ids()));

-- Limits the number of sources, and looks again at once when a person changes one, also at all that could not be taken.
create function private.check_source() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    -- Locks the organisation, so that concurrent requests are counted.
    perform from public.organisations where id = new.org_id for no key update;
    perform private.require(
      (select count(*) from public.sources where org_id = new.org_id) < 20,
      'The organisation has 20 sources, the maximum. Delete one first.', 'PT409', 'too_many');
  else
    new.attempts := 0;
    new.due_at := now();
    update public.source_failures set attempts = 0, due_at = now() where source_id = new.id;
  end if;
  return new;
end $$;
create trigger check_source before insert or update of secret, extract, stack_id, is_paused on public.sources
  for each row execute function private.check_source();

create function public.delete_source(p_source_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.sources where id = p_source_id and org_id in (select private.my_owned_org_ids());
  perform private.check_found(found, 'source');
end $$;

-- Each object that was taken, or skipped for a reason. The version is the object's ETag; a mail's name is its hash.
create table private.source_objects (
  source_id uuid not null,
  org_id uuid not null,
  name text not null check (octet_length(name) between 1 and 1024),
  version text not null check (octet_length(version) <= 200),
  created_at timestamptz not null default now(),
  reason text check (reason in (
    'empty', 'too_large', 'not_a_document', 'folder', 'bad_name', 'auto_reply', 'repeated')),
  primary key (source_id, name, version),
  foreign key (source_id, org_id) references public.sources (id, org_id) on delete cascade
);
select private.protect_table('private.source_objects');

-- Leases sources that are due, at most one of an organisation and none of `p_busy`. Only the service calls it.
create function private.lease_sources(p_most integer, p_busy uuid[], p_lease interval) returns table (
  id uuid, org_id uuid, created_by uuid, kind text, address text, folder text, username text, secret text, "extract" text,
  stack_id uuid, "position" text, attempts integer, leased_until timestamptz, is_owner_there boolean)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with due as (
    select distinct on (s.org_id) s.id, s.due_at from public.sources as s
    where not s.is_paused and s.due_at <= now() and s.org_id <> all (p_busy)
    order by s.org_id, s.due_at
  ), locked as (
    select s.id from public.sources as s
    where s.id in (select due.id from due order by due.due_at limit p_most) and s.due_at <= now()
    for update skip locked
  ), leased as (
    update public.sources as s set due_at = now() + p_lease from locked where s.id = locked.id returning s.*
  )
  select l.id, l.org_id, l.created_by, l.kind, l.address, l.folder, l.username, l.secret, l.extract, l.stack_id,
    l.position, l.attempts, l.due_at, coalesce(private.role_of(l.org_id, l.created_by) in ('owner', 'member'), false)
  from leased as l
$$;

-- Returns which of these objects were neither taken, skipped nor failed, by their numbers in the lists.
create function private.new_objects(p_source_id uuid, p_names text[], p_versions text[]) returns setof integer
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select o.number::integer from unnest(p_names, p_versions) with ordinality as o (name, version, number)
  where not exists (
    select from private.source_objects as s
    where s.source_id = p_source_id and s.name = o.name and s.version = o.version)
  and not exists (
    select from public.source_failures as f
    where f.source_id = p_source_id and f.name = o.name and f.version = o.version)
$$;

-- Records that an object could not be taken, and when to try again (null: it is abandoned). Without an error: that it was
-- taken now, or is gone.
create function private.record_source_failure(
  p_source_id uuid, p_name text, p_version text, p_error_code text, p_retry_after interval
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if p_error_code is null then
    delete from public.source_failures where source_id = p_source_id and name = p_name and version = p_version;
    return;
  end if;
  insert into public.source_failures as f (source_id, org_id, name, version, error_code, due_at)
  select id, org_id, p_name, p_version, p_error_code, now() + p_retry_after from public.sources where id = p_source_id
  on conflict (source_id, name, version) do update set error_code = excluded.error_code, attempts = f.attempts + 1,
    attempted_at = now(), due_at = excluded.due_at;
end $$;

-- Returns the failed object that has been due longest, if there is one.
create function private.due_source_failure(p_source_id uuid) returns table (name text, version text, attempts integer)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select f.name, f.version, f.attempts from public.source_failures as f
  where f.source_id = p_source_id and f.due_at <= now() order by f.due_at limit 1
$$;

-- Records objects ([{name, version, reason, label}]; reason null: taken) and where the source goes on, together. Each
-- object counts once. Returns false if the source was deleted.
create function private.record_objects(p_source_id uuid, p_objects jsonb, p_position text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := (select org_id from public.sources where id = p_source_id for no key update);
begin
  if v_org is null then
    return false;
  end if;
  with objects as (
    select * from jsonb_to_recordset(p_objects) as o (name text, version text, reason text, label text)
  ), added as (
    insert into private.source_objects (source_id, org_id, name, version, reason)
    select p_source_id, v_org, name, version, reason from objects on conflict do nothing returning name, reason
  ), repeated as (
    select 'repeated' as reason from objects where reason = 'repeated' and name not in (select name from added)
  ), counts as (
    select reason, count(*) as number from (
      select reason from added where reason is not null union all select reason from repeated) as s group by reason
  ), last as (
    select o.label from objects as o join added as a on a.name = o.name where a.reason is null order by a.name desc limit 1
  )
  update public.sources as s set
    position = p_position,
    taken = taken + (select count(*) from added where reason is null),
    last_object = coalesce((select label from last), last_object),
    last_object_at = case when exists (select from last) then now() else last_object_at end,
    skipped = skipped || coalesce((
      select jsonb_object_agg(reason, coalesce((s.skipped ->> reason)::bigint, 0) + number) from counts), '{}')
  where id = p_source_id;
  return true;
end $$;

-- Records that the service has looked, unless a person changed the source since the lease.
create function private.finish_source(
  p_source_id uuid, p_leased_until timestamptz, p_error_code text, p_pause interval, p_is_complete boolean
) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  update public.sources set due_at = now() + p_pause, error_code = p_error_code,
    attempts = case when p_error_code is null then 0 else attempts + 1 end,
    failing_since = case when p_error_code is not null then coalesce(failing_since, now()) end,
    checked_at = case when p_is_complete then now() else checked_at end
  where id = p_source_id and due_at = p_leased_until
$$;

-- retention.sql

-- Retention: workers delete old rows and deleted organisations of all tenants, in batches.
--
-- Each function deletes one batch in its own transaction and returns the count; the worker repeats it until
-- 0. With nothing to delete, a call reads the start of an index.

-- The progress of each task, in the order in which runs ended. The worker on a task locks its row.
create table private.maintenance (
  task text primary key,
  finished_at timestamptz not null default '-infinity',
  run_id uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into private.maintenance (task) values ('runs'), ('organisations'), ('changes');

create index runs_finished_at on public.runs (finished_at, id) where finished_at is not null;

create function private.lock_maintenance_task(p_task text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from private.maintenance where task = p_task for update skip locked;
  return found;
end $$;

-- Deletes events and calls of runs that ended before this interval, oldest first. Runs in threads are kept. At least
-- one hour is kept: a run may commit later than its `finished_at`.
create function private.delete_old_run_records(p_keep interval) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan as $$
declare
  v_before timestamptz := now() - greatest(p_keep, interval '1 hour');
  v_at private.maintenance;
  v_runs uuid[];
begin
  -- Checked twice: first without a lock, and so without a write; then with it.
  for n in 1..2 loop
    select * into v_at from private.maintenance where task = 'runs';
    v_runs := array(
      select id from public.runs
      where finished_at is not null and finished_at < v_before and (finished_at, id) > (v_at.finished_at, v_at.run_id)
        and p_keep is not null  -- greatest() would ignore null
      order by finished_at, id limit 50);
    if v_runs = '{}' or (n = 1 and not private.lock_maintenance_task('runs')) then
      return 0;
    end if;
  end loop;
  update private.maintenance as m set (finished_at, run_id) = (
    select r.finished_at, r.id from public.runs as r where r.id = v_runs[cardinality(v_runs)])
  where task = 'runs';
  delete from public.run_events where run_id in (
    select id from public.runs where id = any (v_runs) and root_thread_id is null);
  delete from public.tool_calls where run_id in (
    select id from public.runs where id = any (v_runs) and root_thread_id is null);
  return cardinality(v_runs);
end $$;

-- Deletes changes and their deliveries that are older than this, but for the newest of an organisation, after whose number
-- the next one is counted.
create function private.delete_old_changes(p_keep interval) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_gone integer;
begin
  delete from public.changes where id = any (array(
    select id from public.changes as c
    where created_at < now() - p_keep
      and exists (select from public.changes as later where later.org_id = c.org_id and later.number > c.number)
    order by created_at limit 500 for update skip locked));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Deleted organisations: what workers still have to delete, and afterwards the proof of what they deleted. It has no
-- foreign key, because it outlives the organisation.
create table private.organisation_deletions (
  org_id uuid primary key,
  asked_by uuid,
  asked_at timestamptz not null default now(),
  -- The number of its rows by table: when the deletion started, and when it ended ({}: no row).
  rows_found jsonb,
  rows_left jsonb,
  files_deleted bigint not null default 0,
  finished_at timestamptz
);
create index organisation_deletions_open on private.organisation_deletions (asked_at, org_id) where finished_at is null;
select private.protect_table('private.organisation_deletions');

-- Makes an organisation invisible at once; workers delete its rows in batches.
create function private.start_deletion(p_org_id uuid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- A user who accepts an invitation or creates a key in it waits for this row.
  perform from public.organisations where id = p_org_id for no key update;
  insert into private.organisation_deletions (org_id, asked_by) values (p_org_id, auth.uid()) on conflict do nothing;
  update public.organisations set personal_of = null where id = p_org_id;
  delete from public.memberships where org_id = p_org_id;
end $$;

-- Deletes an organisation of which the caller is an owner.
create function public.delete_organisation(p_org_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.require(
    p_org_id in (select private.my_owned_org_ids()), 'Organisation not found, or you are not an owner.', 'PT404');
  perform private.current_user_id();
  -- A personal organisation is created again: repeated deletion would multiply a user's share of the queue.
  perform private.require(
    (select count(*) from private.organisation_deletions where asked_by = auth.uid() and finished_at is null) < 20,
    '20 of your organisations are still being deleted. Try again in a few minutes.',
    'PT409', 'too_many');
  perform private.start_deletion(p_org_id);
end $$;

-- Returns what was deleted of an organisation that the caller deleted. Null: the caller deleted no such organisation.
create function public.deleted_organisation(p_org_id uuid) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object(
    'org_id', org_id, 'asked_at', asked_at, 'finished_at', finished_at, 'rows_found', rows_found,
    'rows_left', rows_left, 'files_deleted', files_deleted,
    'files_left', (select count(*) from private.files_to_delete as f where f.org_id = d.org_id))
  from private.organisation_deletions as d
  where org_id = p_org_id and asked_by = auth.uid()
$$;

-- Counts an organisation's rows in every table of the catalogue, so that a new table is not forgotten. (Not in the
-- record of the deletion, and in the queue of files, which is counted apart.) A table without an index that begins with
-- the organisation is counted by the parents of its rows: it may have millions of other organisations.
create function private.count_rows_of_organisation(p_org_id uuid, p_number integer) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_counts jsonb := jsonb_build_object();
  v_table text;
  v_column text;
  v_parent text;
  v_count bigint;
begin
  for v_table, v_column, v_parent in
    select c.oid::regclass::text, a.attname::text, (
      select format('%I in (select id from %s where org_id = %L)', k.attname, f.confrelid::regclass, p_org_id)
      from pg_constraint as f join pg_attribute as k on k.attrelid = c.oid and k.attnum = f.conkey[1]
      where f.conrelid = c.oid and f.contype = 'f' and a.attnum = any (f.conkey[2:]) and k.attnotnull
        and not exists (
          select from pg_index as i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null)
      limit 1)
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid and not a.attisdropped
      and (a.attname in ('org_id', 'org_number') or (c.oid = 'public.organisations'::regclass and a.attname = 'id'))
    where c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
      and c.oid not in ('private.organisation_deletions'::regclass, 'private.files_to_delete'::regclass)
    order by 1
  loop
    execute format('select count(*) from %s where %s', v_table, coalesce(v_parent, format('%I = %L', v_column,
      case v_column when 'org_number' then p_number::text else p_org_id::text end))) into v_count;
    if v_count > 0 then
      v_counts := v_counts || jsonb_build_object(v_table, v_count);
    end if;
  end loop;
  return v_counts;
end $$;

-- Deletes a batch of rows of a deleted organisation, children first, so that no foreign key has to cascade.
create function private.clear_organisations(p_rows integer default 2000) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid := (
    select org_id from private.organisation_deletions where finished_at is null order by asked_at, org_id limit 1);
  v_number integer := (select number from private.search_orgs where org_id = v_org);
  v_runs uuid[];
  v_documents uuid[];
  v_table regclass;
  v_rows text;
  v_gone integer;
begin
  if v_org is null or not private.lock_maintenance_task('organisations') then
    return 0;
  end if;
  update private.organisation_deletions set rows_found = private.count_rows_of_organisation(v_org, v_number)
  where org_id = v_org and rows_found is null;
  if found then
    return 1;
  end if;
  v_runs := array(select id from public.runs where org_id = v_org order by created_at desc, id desc limit 50);
  v_documents := array(select id from public.documents where org_id = v_org order by created_at desc, id desc limit 20);
  -- The triggers of the queue's tables use unqualified names.
  perform set_config('search_path', 'pg_catalog, queue, pg_temp', true);
  for v_table, v_rows in values
    ('public.run_events'::regclass, 'run_id = any ($3)'),
    ('public.tool_calls', 'run_id = any ($3)'),
    ('public.runs', 'id = any ($3)'),
    ('public.extraction_journal', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.fields', 'extraction_id in (select id from public.extractions where document_id = any ($4))'),
    ('public.document_pages', 'document_id = any ($4)'),
    ('private.search_vectors', 'org_number = $5'),
    ('private.search_chunks', 'org_number = $5'),
    ('public.extractions', 'document_id = any ($4)'),
    ('public.documents', 'id = any ($4)'),
    ('public.webhook_deliveries', 'org_id = $1'),
    ('private.source_objects', 'source_id in (select id from public.sources where org_id = $1)'),
    ('public.source_failures', 'org_id = $1'),
    ('public.changes', 'org_id = $1'),
    ('public.agent_sessions', 'org_id = $1'),
    ('public.usage', 'org_id = $1'),
    ('public.threads', 'org_id = $1'),
    ('private.search_terms', 'org_number = $5'),
    -- (A job that runs finds no row, and is deleted when it ends.)
    ('queue.procrastinate_jobs', 'left(lock, 36) = $1::text and status <> ''doing'''),
    ('public.organisations', 'id = $1')
  loop
    execute format(
      'delete from %1$s where ctid = any (array(select ctid from %1$s where %2$s limit $2))', v_table, v_rows)
    using v_org, p_rows, v_runs, v_documents, v_number;
    get diagnostics v_gone = row_count;
    exit when v_gone > 0;
  end loop;
  if v_gone = 0 or v_table = 'public.organisations'::regclass then
    update private.organisation_deletions
    set rows_left = private.count_rows_of_organisation(v_org, v_number), finished_at = clock_timestamp()
    where org_id = v_org;
  end if;
  return 1;
end $$;

-- Deletes the caller's account: the organisations of which they are the only member, their memberships, threads that they
-- did not share, sources and address. What they wrote for other members stays, under an id that names no one. Returns
-- {table: rows}, with the ids of the deleted organisations.
create function public.delete_account() returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_user uuid := private.current_user_id();
  v_addresses text[] := array[
    lower(auth.jwt() ->> 'email'), (select lower(email) from auth.users where id = v_user)];
  v_deleted jsonb;
  v_orgs uuid[];
begin
  -- Who accepts an invitation to one of them becomes a member before, or waits and is refused.
  perform from public.organisations
  where id in (select org_id from public.memberships where user_id = v_user and role = 'owner') order by id for no key update;
  v_orgs := array(
    select m.org_id from public.memberships as m where m.user_id = v_user and m.role = 'owner' and not exists (
      select from public.memberships as other where other.org_id = m.org_id and other.user_id <> v_user));
  perform private.start_deletion(org_id) from unnest(v_orgs) as org_id;
  -- (The trigger refuses the last owner of an organisation with other members.)
  with removed as (delete from public.memberships where user_id = v_user returning 1)
    select jsonb_build_object('organisations', to_jsonb(v_orgs), 'memberships', count(*)) into v_deleted from removed;
  with removed as (delete from public.threads where created_by = v_user and not shared returning 1)
    select v_deleted || jsonb_build_object('threads', count(*)) into v_deleted from removed;
  with removed as (delete from public.sources where created_by = v_user returning 1)
    select v_deleted || jsonb_build_object('sources', count(*)) into v_deleted from removed;
  -- Without its address an invitation would be for everyone who has the link.
  with changed as (
    update public.invitations set email = null, revoked_at = coalesce(revoked_at, case when accepted_at is null then now() end),
      revoked_by = case when accepted_at is null and revoked_at is null then v_user else revoked_by end
    where lower(email) = any (v_addresses) returning 1)
    select v_deleted || jsonb_build_object('invitations', count(*)) into v_deleted from changed;
  delete from auth.users where id = v_user;
  return v_deleted;
end $$;

-- administration.sql

-- Administration: what the person who runs the service may see. The role has no right on any table, so it reads no document
-- and no value; each call is recorded. `fieldmark admin` switches to it from the owner's login.

do $$
begin
  if not exists (select from pg_roles where rolname = 'fieldmark_admin') then
    create role fieldmark_admin nologin noinherit;
  end if;
  execute format('grant fieldmark_admin to %I', current_user);
exception when insufficient_privilege then
  raise notice 'fieldmark_admin belongs to another owner on this server, who can grant it to this one.';
end $$;
grant usage on schema private to fieldmark_admin;

create table private.administration_journal (
  id uuid primary key default private.new_id(),
  created_at timestamptz not null default clock_timestamp(),
  -- The database login, and the function that it called.
  login text not null default session_user,
  call text not null
);
select private.protect_table('private.administration_journal');

-- Returns the organisations that spend and store most, the queue and the last calls of this function.
create function private.administration(p_most integer default 50) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into private.administration_journal (call) values ('administration');
  return jsonb_build_object(
    'organisations', (
      select coalesce(jsonb_agg(to_jsonb(o) order by o.spent_usd desc, o.bytes desc, o.id), '[]')
      from (
        select o.id, o.name, o.created_at, coalesce(u.documents, 0) as documents, coalesce(u.bytes, 0) as bytes,
          coalesce(s.spent_usd, 0) as spent_usd, l.max_usd, l.max_concurrent_runs, l.max_documents, l.max_bytes,
          (select count(*) from public.memberships as m where m.org_id = o.id) as members,
          (select count(*) from public.documents as d where d.org_id = o.id and d.status = 'reading') as waiting_documents,
          (select count(*) from public.runs as r where r.org_id = o.id and r.status = 'queued') as waiting_runs,
          (select count(*) from public.runs as r where r.org_id = o.id and r.status = 'running') as running_runs,
          (select d.asked_at from private.organisation_deletions as d where d.org_id = o.id) as deleted_at
        from public.organisations as o
        left join public.storage_usage as u on u.org_id = o.id
        left join public.credit_limits as l on l.org_id = o.id
        left join (
          select org_id, sum(cost_usd) as spent_usd from public.usage_by_day
          where day >= date_trunc('month', now() at time zone 'utc')::date group by org_id) as s on s.org_id = o.id
        order by coalesce(s.spent_usd, 0) desc, coalesce(u.bytes, 0) desc, o.id limit p_most) as o),
    'organisation_count', (select count(*) from public.organisations),
    'queue', (
      select coalesce(jsonb_agg(to_jsonb(q) order by q.queue, q.status), '[]')
      from (
        select queue_name as queue, status::text, count(*) as jobs from queue.procrastinate_jobs group by 1, 2) as q),
    'calls', (
      select jsonb_agg(to_jsonb(j) order by j.id desc)
      from (select * from private.administration_journal order by id desc limit 20) as j));
end $$;

-- realtime.sql

-- Realtime: front ends follow progress without the service.

do $$
declare
  v_table text;
begin
  foreach v_table in array
    array['documents', 'extractions', 'extraction_proposals', 'auto_creations', 'runs', 'run_events', 'stacks', 'stack_documents']
  loop
    if not exists (
      select from pg_publication_tables
      where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end $$;

-- grants.sql

-- Grants: which role may call which function. All other functions are revoked.

revoke execute on all functions in schema private from public;

-- Functions for front ends, which PostgREST exposes. (Supabase grants every new function in `public` to all its roles.)
do $$
declare
  v_function regprocedure;
begin
  for v_function in select oid from pg_proc where pronamespace = 'public'::regnamespace and proname in (
    'ensure_personal_organisation', 'create_organisation', 'remove_member', 'create_api_key', 'revoke_api_key', 'invite', 'revoke_invitation',
    'accept_invitation', 'read_invitation', 'delete_document', 'create_schema', 'update_schema', 'delete_schema', 'delete_thread',
    'create_tag', 'update_tag', 'delete_tag', 'tag_document', 'rename_document', 'create_prompt', 'update_prompt',
    'delete_prompt', 'delete_extraction', 'delete_run', 'save_extraction_fields', 'update_extraction_field',
    'update_extraction_fields', 'update_field', 'remove_extraction_field', 'identify_document', 'complete_extraction',
    'restore_extraction', 'unlock_extraction_field', 'decide_extraction_proposals', 'decide_auto_creation',
    'delete_organisation', 'deleted_organisation', 'delete_account', 'delete_stack', 'remove_stack_document', 'delete_saved_view', 'assign_document', 'delete_comment',
    'delete_webhook', 'test_webhook', 'set_max_error', 'set_upload_rules', 'delete_source'
  ) loop
    execute format('revoke execute on function %s from public, anon, authenticated', v_function);
    execute format('grant execute on function %s to authenticated', v_function);
  end loop;
end $$;

-- Functions that policies, other functions and the service call as a member.
grant execute on function
  private.is_service, private.require, private.check_found, private.is_agent, private.this_run, private.this_call,
  private.new_id, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.only_organisation, private.resolve_organisation,
  private.role_of, private.current_user_id, private.check_owner, private.user_of, private.address_of,
  private.clear_pages, private.count_enclosed, private.this_root_run, private.save_thread_state, private.is_name,
  private.follow_schema, private.schema_revid_of, private.schema_to_extract, private.count_references_to_schema, private.count_references_to_prompt, private.count_references_to_tag,
  private.fence, private.has_active_run, private.append_event, private.delta_channel, private.notify_deltas,
  private.record_call, private.claim_call, private.finish_call, private.cost_of_run, private.spent_this_month,
  private.lock_credit, private.report_full_quota, private.count_active_runs, private.is_blocked, private.runs_ahead, private.waits_behind,
  private.is_budget_spent, private.is_credit_spent, private.check_capacity, private.charge, private.await_approval,
  private.show_updated_call, private.approval_refusal_reason, private.approval_refusal_reason_for,
  private.decided_by_others, private.start_decision, private.approve_later_calls, private.resume_run, private.detach_run,
  private.detach_dead_worker, private.has_open_children, private.await_runs, private.tree_of_run, private.cancel_run,
  private.queue_unlocked_copy, private.record_reading, private.child_name, private.nodes, private.changes, private.is_leaf,
  private.check_json, private.checked_path, private.set_at_path, private.path_name, private.merge, private.entries_under,
  private.approving_user, private.message_author, private.paths_allowed_by_message, private.fields_at, private.binding_locks,
  private.blocked_paths, private.moved_items, private.locked_extraction, private.check_is_caller, private.nested_scores, private.write_fields, private.is_proposed,
  private.record_second_reading,
  private.compare_schemas, private.review_counts, private.differ, private.change_data, private.record_problems, private.search,
  private.count_unindexed_documents, private.review_figures, private.search_stems, private.search_nearest, private.count_unembedded_documents, private.has_vectors
  to authenticated;

-- Functions that the service calls without a user.
grant execute on function
  private.is_service, private.my_org_ids, private.my_writable_org_ids, private.my_owned_org_ids, private.resolve_organisation,
  private.use_api_key, private.record_api_key_use, private.scope_of_document, private.fail_document, private.register_pending_files,
  private.files_to_delete, private.unregister_deleted_files, private.scope_of_run, private.count_waiting_runs, private.fail_run,
  private.notify, private.claim_job, private.search_source, private.search_words, private.write_search_chunks,
  private.abandon_indexing, private.search_stems, private.use_embedder, private.lease_document_for_embedding,
  private.chunks_without_vectors, private.write_search_vectors, private.has_vectors, private.delete_old_run_records,
  private.clear_organisations, private.record_problems, private.extractions_to_check,
  private.schemas_to_count, private.update_required_fields, private.review_figures, private.store_review_policy,
  private.publish_changes, private.lease_deliveries, private.record_delivery,
  private.lease_sources, private.new_objects, private.record_objects, private.finish_source,
  private.record_source_failure, private.due_source_failure,
  private.delete_old_changes
  to fieldmark_app;

-- The function of the person who runs the service.
grant execute on function private.administration to fieldmark_admin;
