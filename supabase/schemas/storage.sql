-- Originals on Supabase Storage: the first folder of an object's name is its organisation.

insert into storage.buckets (id, name, public) values ('documents', 'documents', false) on conflict (id) do nothing;

create policy "members read their organisation's originals" on storage.objects for select to authenticated
  using (bucket_id = 'documents' and (storage.foldername(name))[1] in (select id::text from private.my_org_ids() as id));
create policy "members upload originals for their organisation" on storage.objects for insert to authenticated
  with check (
    bucket_id = 'documents' and (storage.foldername(name))[1] in (select id::text from private.my_writable_org_ids() as id)
  );
