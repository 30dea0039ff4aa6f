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

-- For the next half minute the run's words are told on this channel too. Its worker hears of it at once.
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
  perform pg_notify('fieldmark_work', p_run_id::text);
end $$;

-- Tells pieces of what the model says, in their order, to whoever watches: each behind the number of the event that it
-- comes after. The fence's lock makes that number exact, and silences a worker that has lost the run.
create function private.tell_watchers(p_run_id uuid, p_fencing_token integer, p_pieces text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  v_after integer;
  v_channel text;
  v_piece text;
begin
  perform private.fence(p_run_id, p_fencing_token);
  -- Nothing of this is kept, so there is no disk to wait for.
  perform set_config('synchronous_commit', 'off', true);
  select coalesce(max(number), 0) into v_after from public.run_events where run_id = p_run_id;
  for v_channel in
    select channel from public.run_watchers where run_id = p_run_id and until > clock_timestamp()
  loop
    foreach v_piece in array p_pieces loop
      perform pg_notify(v_channel, concat_ws(' ', p_run_id, v_after, v_piece));
    end loop;
  end loop;
end $$;

revoke execute on all functions in schema private from public;
grant execute on function
  private.clear_watchers(), private.watch_run(uuid, text), private.tell_watchers(uuid, integer, text[]) to authenticated;
