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
