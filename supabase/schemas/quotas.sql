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
