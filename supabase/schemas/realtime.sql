-- Realtime: front ends follow progress without the service.

do $$
declare
  v_table text;
begin
  foreach v_table in array
    array['documents', 'extractions', 'extraction_proposals', 'auto_creations', 'runs', 'run_events', 'stacks', 'stack_documents']
  loop
    if not exists (
      select from pg_publication_tables
      where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end $$;
