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
