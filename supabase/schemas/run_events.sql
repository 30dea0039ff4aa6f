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
