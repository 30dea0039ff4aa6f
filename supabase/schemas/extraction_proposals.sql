-- Proposals: changes by an agent that a lock blocked. A user decides them.

create table public.extraction_proposals (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  extraction_id uuid not null,
  -- A locked leaf, or the outermost list or object that could only change together with one; and its name.
  path text[] not null,
  name text not null,
  -- `old` is the current value while the proposal is pending or rejected. SQL null as `new`: remove the value.
  old jsonb not null,
  new jsonb,
  -- Keyed by path name, as in the extraction, for the path and the values below it.
  confidence_scores jsonb not null,
  evidence jsonb not null,
  -- superseded: replaced by a newer proposal, or the current value has changed since.
  status text not null default 'pending' check (status in ('pending', 'accepted', 'rejected', 'superseded')),
  run_id uuid,
  call_id text,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default clock_timestamp(),
  decided_by uuid,
  decided_at timestamptz,
  foreign key (extraction_id, org_id) references public.extractions (id, org_id) on delete cascade
);
create index extraction_proposals_extraction_id on public.extraction_proposals (extraction_id, name);
create index extraction_proposals_pending on public.extraction_proposals (org_id, extraction_id) where status = 'pending';
select private.protect_table('public.extraction_proposals', p_members_read => true);

-- Stores a blocked change, unless the same proposal is pending or was rejected for the current value.
create function private.propose(
  p_extraction public.extractions, p_path text[], p_name text, p_old jsonb, p_new jsonb, p_scores jsonb, p_evidence jsonb
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if exists (
    select from public.extraction_proposals
    where extraction_id = p_extraction.id and name = p_name and status in ('pending', 'rejected')
      and new::text is not distinct from p_new::text
  ) then
    return;
  end if;
  update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
  where extraction_id = p_extraction.id and status = 'pending'
    and (name = p_name or starts_with(name, p_name || '.') or starts_with(name, p_name || '['));
  insert into public.extraction_proposals
    (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, run_id, call_id)
  values (
    p_extraction.org_id, p_extraction.id, p_path, p_name, p_old, p_new, p_scores, p_evidence, private.this_run(),
    private.this_call());
end $$;

-- After a change, proposals move with their list items, also if an item comes back (`p_is_back`). Those whose value or row may have changed are superseded.
create function private.keep_proposals(p_now public.extractions, p_was jsonb, p_removed text[], p_is_back boolean, p_decided text[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_step integer := cardinality(p_removed);
  v_by integer := case when p_is_back then 1 else -1 end;
begin
  if jsonb_typeof(p_was #> p_removed[:v_step - 1]) = 'array' then
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step] = p_removed and not p_is_back;
    update public.extraction_proposals set
      path = path[:v_step - 1] || (path[v_step]::integer + v_by)::text || path[v_step + 1:],
      name = private.path_name(
        p_now.extracted_fields, path[:v_step - 1] || (path[v_step]::integer + v_by)::text || path[v_step + 1:]),
      confidence_scores = private.shift_entries(confidence_scores, confidence_scores, p_was, p_removed, p_is_back),
      evidence = private.shift_entries(evidence, evidence, p_was, p_removed, p_is_back)
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step - 1] = p_removed[:v_step - 1]
      and case when path[:v_step - 1] = p_removed[:v_step - 1] then path[v_step]::integer >= p_removed[v_step]::integer + (v_by = -1)::integer end;
  elsif p_removed is null and exists (
    select from public.extraction_proposals where extraction_id = p_now.id and status in ('pending', 'rejected')
  ) then
    -- A change of a single leaf, or an accepted proposal, does not turn an item into another row.
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where id in (
      select proposal.id
      from public.extraction_proposals as proposal
      cross join lateral generate_series(1, cardinality(proposal.path) - 1) as n
      join private.moved_items(p_was, p_now.extracted_fields, p_decided) as item on item.path = proposal.path[:n]
      where proposal.extraction_id = p_now.id and proposal.status in ('pending', 'rejected') and item.leaves > 1);
  end if;
  update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
  where extraction_id = p_now.id and status in ('pending', 'rejected') and (
    private.path_name(p_now.extracted_fields, path) is distinct from name
    or (p_now.extracted_fields #> path)::text <> old::text);
end $$;
