-- What the migrations need from a Supabase project, for a plain Postgres. Can be run again; never runs on Supabase.
-- The owner may be a role with only CREATEROLE, so statements that need a superuser may fail.

do $$
declare
  v_role text;
begin
  foreach v_role in array array['anon', 'authenticated', 'service_role', 'authenticator'] loop
    begin
      -- Roles belong to the whole server: a migration of another database may create them at the same time.
      if not exists (select from pg_roles where rolname = v_role) then
        execute format('create role %I %s noinherit', v_role,
          case v_role when 'authenticator' then 'login' else 'nologin' end);
      end if;
    exception when duplicate_object or unique_violation then
      null;
    end;
  end loop;
end $$;

do $$
begin
  if not (select rolbypassrls from pg_roles where rolname = 'service_role') then
    alter role service_role bypassrls;
  end if;
exception when insufficient_privilege then
  raise notice 'service_role is left without BYPASSRLS; Fieldmark does not use it.';
end $$;

do $$
declare
  v_role text;
begin
  foreach v_role in array array['anon', 'authenticated', 'service_role'] loop
    if not pg_has_role('authenticator', v_role, 'member') then
      execute format('grant %I to authenticator', v_role);
    end if;
  end loop;
exception when insufficient_privilege then
  raise notice 'authenticator is left without its roles; only PostgREST would use it.';
end $$;

create schema if not exists auth;
create schema if not exists storage;
create schema if not exists extensions;
grant usage on schema public, auth, storage, extensions to anon, authenticated, service_role;

-- As on Supabase, where a migration must revoke the privileges that it does not want to grant.
alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges in schema public grant all on functions to anon, authenticated, service_role;

-- auth ----------------------------------------------------------------------------------------------------------------

create table if not exists auth.users (
  id uuid primary key default gen_random_uuid(),
  aud text,
  role text,
  email text,
  raw_app_meta_data jsonb,
  raw_user_meta_data jsonb,
  created_at timestamptz default now(),
  updated_at timestamptz default now(),
  deleted_at timestamptz
);

-- PostgREST passes the token's claims as one setting; older versions as one setting per claim.
create or replace function auth.jwt() returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb $$;

create or replace function auth.uid() returns uuid
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.sub', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
  )::uuid
$$;

create or replace function auth.role() returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.role', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
  )
$$;

create or replace function auth.email() returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.email', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'
  )
$$;

-- Supabase Auth creates users when they sign up. Plain Postgres has no sign-up: the first request of a user creates them.
create or replace function auth.know_user(p_user uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into auth.users (id, aud, role) values (p_user, 'authenticated', 'authenticated') on conflict (id) do nothing
$$;
revoke all on function auth.know_user(uuid) from public, anon, authenticated, service_role;

-- storage -------------------------------------------------------------------------------------------------------------

create table if not exists storage.buckets (
  id text primary key,
  name text not null unique,
  owner_id text,
  public boolean default false,
  file_size_limit bigint,
  allowed_mime_types text[],
  created_at timestamptz default now(),
  updated_at timestamptz default now()
);

create table if not exists storage.objects (
  id uuid primary key default gen_random_uuid(),
  bucket_id text references storage.buckets (id),
  name text,
  owner_id text,
  metadata jsonb,
  user_metadata jsonb,
  version text,
  path_tokens text[] generated always as (string_to_array(name, '/')) stored,
  created_at timestamptz default now(),
  updated_at timestamptz default now(),
  last_accessed_at timestamptz default now(),
  unique (bucket_id, name)
);

alter table storage.buckets enable row level security;
alter table storage.objects enable row level security;
-- Only privileges that a policy restricts. (Policies do not restrict `truncate`, and `delete` includes locking the table.)
revoke all on storage.buckets, storage.objects from anon, authenticated;
grant select on storage.buckets, storage.objects to anon, authenticated;
grant insert (id, bucket_id, name, owner_id, metadata, user_metadata, version) on storage.objects to authenticated;
grant all on storage.buckets, storage.objects to service_role;

-- The folders of an object's name, without the file: a/b/c.pdf -> {a,b}
create or replace function storage.foldername(name text) returns text[]
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select (string_to_array(name, '/'))[1:cardinality(string_to_array(name, '/')) - 1] $$;

-- realtime ------------------------------------------------------------------------------------------------------------

do $$
begin
  if not exists (select from pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
end $$;
