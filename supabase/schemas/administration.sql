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
