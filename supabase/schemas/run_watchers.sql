-- Run watchers: which processes want to be told a run's words as the model says them, past the rows that are kept.

create table public.run_watchers (
  run_id uuid not null,
  -- Where the process listens. Anybody who can log in to the database can listen to a channel whose name is known: this
  -- one is random, and stands nowhere else.
  channel text not null check (char_length(channel) between 1 and 63),
  org_id uuid not null,
  -- Said again and again for as long as there is a reader. One that goes, or dies, need not say so.
  until timestamptz not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (run_id, channel),
  foreign key (run_id, org_id) references public.runs (id, org_id) on delete cascade
);
create index run_watchers_of on public.run_watchers (org_id, until);
select private.protect_table('public.run_watchers');
grant select, insert (run_id, org_id, channel, until), update (until) on public.run_watchers to authenticated;

-- A member has a right to the words, and none to the channel: it carries those of other organisations too.
create policy "the service knows where its members watch" on public.run_watchers
  for select to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "the service watches for its members" on public.run_watchers
  for insert to authenticated
  with check (org_id in (select private.my_org_ids()) and (select private.is_service()));
create policy "the service goes on watching for its members" on public.run_watchers
  for update to authenticated
  using (org_id in (select private.my_org_ids()) and (select private.is_service()));

-- Clears away whoever watched in the caller's organisations and watches no more.
create function private.clear_watchers() returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  delete from public.run_watchers where (run_id, channel) in (
    select w.run_id, w.channel from public.run_watchers as w
    where w.org_id in (select private.my_org_ids()) and w.until < clock_timestamp() - interval '1 hour'
      and private.is_service()
    for update skip locked)
$$;

-- For the next half minute the run's words are told on this channel too, and those of what is part of it. Whoever works on
-- them hears of it at once.
create function private.watch_run(p_run_id uuid, p_channel text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.clear_watchers();
  insert into public.run_watchers (run_id, org_id, channel, until)
  select id, org_id, p_channel, clock_timestamp() + interval '30 seconds' from public.runs where id = p_run_id
  on conflict (run_id, channel) do update set until = excluded.until;
  if not found then
    raise exception 'There is no such run.' using errcode = 'PT404';
  end if;
  perform pg_notify('fieldmark_work', part::text) from unnest(private.tree_of_run(p_run_id)) as part;
end $$;

-- Until when somebody watches a run, or one that it is part of; null if nobody does.
create function private.watched_until(p_run_id uuid) returns timestamptz
language sql stable set search_path = pg_catalog, pg_temp
as $$ select max(until) from public.run_watchers where run_id = any (private.run_and_above(p_run_id)) $$;

-- Tells pieces of what the model says, in their order, to whoever watches: each behind the number of the event that it
-- comes after. The fence's lock makes that number exact, and silences a worker that has lost the run. Whoever watches a run
-- above is told them as `child`, with whose they are before their place (`<run>/<place>`).
create function private.tell_watchers(p_run_id uuid, p_fencing_token integer, p_pieces text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_pieces text[] := p_pieces;
  v_run public.runs;
  v_after integer;
  v_channel text;
  v_piece text;
begin
  perform private.fence(p_run_id, p_fencing_token);
  -- Nothing of this is kept, so there is no disk to wait for.
  perform set_config('synchronous_commit', 'off', true);
  select * into v_run from public.runs where id = p_run_id;
  loop
    select coalesce(max(number), 0) into v_after from public.run_events where run_id = v_run.id;
    for v_channel in
      select channel from public.run_watchers where run_id = v_run.id and until > clock_timestamp()
    loop
      foreach v_piece in array v_pieces loop
        perform pg_notify(v_channel, concat_ws(' ', v_run.id, v_after, v_piece));
      end loop;
    end loop;
    exit when v_run.parent_call_id is null;
    -- A piece is "<place> <from> <to> <body>". One that is too long for a notification is left out.
    v_pieces := array(
      select told from (
        select n, format(
            '%s%s {"type": "child", "parent_call_id": %s, "run_id": "%s", "event": %s}',
            case when v_run.id = p_run_id then p_run_id || '/' end,
            array_to_string((string_to_array(piece, ' '))[1:3], ' '), to_json(v_run.parent_call_id), v_run.id,
            array_to_string((string_to_array(piece, ' '))[4:], ' ')) as told
        from unnest(v_pieces) with ordinality as given (piece, n)) as wrapped
      where octet_length(told) < 7900 order by n);
    select * into v_run from public.runs where id = v_run.parent_run_id;
    exit when not found;
  end loop;
end $$;
