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
