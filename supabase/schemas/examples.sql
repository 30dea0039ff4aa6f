-- Examples: corrections by people in documents of the same schema, which the agent is shown.

-- Corrections that a user excluded, by extraction and path name. They are never shown again.
create table public.withdrawn_examples (
  org_id uuid not null,
  extraction_id uuid not null,
  name text not null check (char_length(name) between 1 and 2000),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  primary key (extraction_id, name),
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index withdrawn_examples_org_id on public.withdrawn_examples (org_id);
select private.protect_table('public.withdrawn_examples', p_members_read => true);
grant insert (org_id, extraction_id, name) on public.withdrawn_examples to authenticated;

create policy "members take examples out" on public.withdrawn_examples for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and not (select private.is_agent()));

create index extractions_of_schema on public.extractions (org_id, md5(schema::text), updated_at desc)
  where schema is not null and locks <> '{}';
