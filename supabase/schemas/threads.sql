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
