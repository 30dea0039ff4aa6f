-- Extractions: the typed fields of a document. What may be written into the table stands in extraction_check.sql.

create table public.extractions (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  document_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  document_type text check (char_length(document_type) between 1 and 200),
  -- The person whose word it is, if it is one's. No agent says otherwise without that person's word.
  document_type_by uuid,
  status text not null default 'in_progress' check (status in ('in_progress', 'completed')),
  -- The JSON Schema (Draft 2020-12) the fields shall follow, if one was given.
  schema jsonb check (jsonb_typeof(schema) = 'object'),
  -- Nested as the document is.
  extracted_fields jsonb not null default '{}' check (jsonb_typeof(extracted_fields) = 'object'),
  -- Flat, keyed by path name ("vendor.name", "items[2].price"): a nested twin could not score both `a` and `a.b`.
  confidence_scores jsonb not null default '{}' check (jsonb_typeof(confidence_scores) = 'object'),
  evidence jsonb not null default '{}' check (jsonb_typeof(evidence) = 'object'),
  -- Leaves that a person set, by path name: {"by": user, "at": time}. Agents may not change them. Locks come by
  -- themselves and can only be taken away.
  locks jsonb not null default '{}' check (jsonb_typeof(locks) = 'object'),
  -- Whether a value has a score below a half that no person has set: one should look at it. The check keeps it.
  is_unsure boolean not null default false,
  -- Rises by one with each change of extracted_fields.
  version integer not null default 0,
  unique (id, document_id, org_id),
  unique (id, org_id),
  -- Nobody sees these characters: with them two keys look alike, and a text reads otherwise than it is stored. The list is
  -- that of domain/invisible.py.
  constraint has_no_invisible_characters check (
    extracted_fields::text !~ ('[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e'
      '\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
      '\U000e0000-\U000e0fff]')
  ),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade
);
create index extractions_document_id on public.extractions (document_id, created_at desc, id desc);
create index extractions_org_id on public.extractions (org_id, created_at desc, id desc);
create index extractions_status on public.extractions (org_id, status, created_at desc, id desc);
create index extractions_document_type on public.extractions (org_id, document_type, created_at desc, id desc);
create index extractions_unsure on public.extractions (org_id, created_at desc, id desc) where is_unsure;
-- What an evaluation reads again.
create index extractions_corrected on public.extractions (org_id, created_at desc)
  where status = 'completed' and locks <> '{}';
select private.protect_table('public.extractions');
grant select, insert (id, org_id, document_id, schema),
  update (document_type, status, extracted_fields, confidence_scores, evidence, locks) on public.extractions to authenticated;

create policy "members read their extractions" on public.extractions
  for select to authenticated using (org_id in (select private.my_org_ids()));
create policy "members begin extractions of their own" on public.extractions
  for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()));
create policy "members change their extractions" on public.extractions
  for update to authenticated
  using (org_id in (select private.my_writable_org_ids()));

-- Deletes an extraction with its runs: a member one of their own or of their keys', an owner any of the organisation's.
create function public.delete_extraction(p_extraction_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  delete from public.extractions
  where id = p_extraction_id and (
    org_id in (select private.my_owned_org_ids())
    or (org_id in (select private.my_writable_org_ids()) and auth.uid() in (created_by, private.person_of(created_by))));
  if not found then
    raise exception 'There is no such extraction.' using errcode = 'PT404';
  end if;
end $$;

revoke execute on function public.delete_extraction(uuid) from public, anon;
grant execute on function public.delete_extraction(uuid) to authenticated;
