-- Locks and proposals: what a person set stands, and what an agent would have written there waits for a person's word.

set local lock_timeout = '10s';
set local statement_timeout = '60s';

create table public.extraction_proposals (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null,
  extraction_id uuid not null,
  -- A leaf that a person set, or the outermost list or object that could only change together with one; and its name.
  path text[] not null,
  name text not null,
  -- While it is pending or rejected, `old` is what stands there. SQL null as `new`: the agent would remove it. (JSON null is
  -- a value.)
  old jsonb not null,
  new jsonb,
  -- By path name, as those of the extraction: what the agent gave for the path and for what stands below it.
  confidence_scores jsonb not null,
  evidence jsonb not null,
  -- Superseded: another proposal took its place, or what stands there has changed since, also after it was rejected.
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

-- Whom a lock binds ---------------------------------------------------------------------------------------------------

-- The person whose word stands behind what an agent writes here, or null: who approved the very call, else whose correction
-- the run is. Told by the rows of the call and of the run.
create function private.person_behind() returns uuid
language sql stable set search_path = ''
as $$
  select coalesce(
    (
      select decided_by from public.tool_calls
      where run_id = run.id and id = current_setting('fieldmark.call_id', true) and admitted_by = 'person'
    ),
    case when task = 'correct' then created_by end)
  from public.runs as run
  where id = nullif(current_setting('fieldmark.run_id', true), '')::uuid and private.is_agent()
$$;

-- The names of the locks that bind whoever writes here: no person, and an agent not with the word of whose lock it is.
create function private.binding(p_locks jsonb) returns text[]
language sql stable set search_path = ''
as $$
  select coalesce(array_agg(key), '{}') from jsonb_each(p_locks)
  where (select private.is_agent()) and value ->> 'by' <> coalesce((select private.person_behind())::text, '')
$$;

-- Items of lists in which a value gives way, to another or to none, so that what stays in them may stand in another row now;
-- and of how many items and leaves of their list there are changes. What only fills up is not among them, nor `p_kept`.
create function private.shifted(p_old jsonb, p_new jsonb, p_kept text[] default '{}')
returns table (path text[], name text, old jsonb, items bigint, leaves bigint)
language sql immutable set search_path = ''
as $$
  with change as materialized (
    select * from private.changes(p_old, p_new)
  ), below as (
    select c.path[:n] as path, left(c.steps, n) as steps, count(*) as leaves, bool_or(
      private.is_leaf(c.old) and c.old not in ('null', '""', '{}', '[]') and c.old is distinct from c.new
      and c.name not in (select unnest(p_kept))) as gives_way
    from change as c
    cross join lateral generate_series(1, length(c.steps)) as n
    where substr(c.steps, n, 1) = 'i' and (private.is_leaf(c.old) or private.is_leaf(c.new))
    group by c.path[:n], left(c.steps, n)
  ), item as (
    select path, c.name, c.old, gives_way, count(*) over list as items, sum(leaves) over list as leaves
    from below
    join change as c using (path, steps)
    window list as (partition by path[:cardinality(path) - 1], left(steps, -1))
  )
  select path, name, old, items, leaves::bigint from item where gives_way
$$;

-- What of a wanted change stays as it stands because of a person's lock, in an order in which it can be put back. A leaf by
-- itself; but a list as a whole, if anything else of it would change, since an old cell must not end up in a new row, also
-- where the two read alike; an object or list as a whole that would go with a leaf in it; and the outermost for more than 500
-- leaves.
create function private.held(p_was public.extractions, p_wanted jsonb, p_removed text[])
returns table (path text[], name text, old jsonb, new jsonb)
language plpgsql stable set search_path = ''
as $$
#variable_conflict use_column
declare
  v_binding text[] := private.binding(p_was.locks);
  v_name text;
begin
  if cardinality(v_binding) = 0 then
    return;
  end if;
  if p_removed is not null then
    v_name := private.name_at(p_was.extracted_fields, p_removed);
    if private.at_or_below(p_was.locks, v_name) ?| v_binding then
      return query select p_removed, v_name, p_was.extracted_fields #> p_removed, null::jsonb;
    end if;
    return;
  end if;
  return query
    with change as materialized (
      select * from private.changes(p_was.extracted_fields, p_wanted)
    ), prefix as materialized (
      -- Each change beside itself and all that it stands in, which changes with it. (Not the values: the whole document would
      -- stand beside each leaf.)
      select below.name as below, length(below.steps) as depth, above.name, length(above.steps) as level,
        jsonb_typeof(above.old) = 'array' as list,
        jsonb_typeof(above.old) is distinct from jsonb_typeof(above.new) as replaced
      from change as below
      cross join lateral generate_series(1, length(below.steps)) as n
      join change as above on above.path = below.path[:n] and above.steps = left(below.steps, n)
    ), shifted as (
      -- Items with a locked leaf that stays, but maybe in another row, since more than this item of the list changes.
      select distinct item.name, left(item.name, -length('[' || item.path[cardinality(item.path)] || ']')) as list
      from private.shifted(p_was.extracted_fields, p_wanted, v_binding) as item
      cross join lateral private.nodes(item.old) as node
      join unnest(v_binding) as lock
        on lock = item.name || case when starts_with(node.name, '[') then '' else '.' end || node.name
      where item.items > 1
    ), touched as (
      select name from change where name in (select unnest(v_binding))
      union
      select name from shifted
    ), free as (
      -- Leaves that change and that no lock keeps.
      select name from change
      where (private.is_leaf(old) or private.is_leaf(new))
        and name not in (select name from prefix where below in (select name from touched))
        and name not in (select below from prefix where name in (select name from touched))
    ), mixed as (
      -- Lists that have such a leaf in them.
      select name from prefix
      where below in (select name from free) and level < depth and list
      union
      select list from shifted
    ), kept as (
      select distinct on (below) name
      from prefix
      where below in (select name from touched)
        and (
          name = below or name in (select name from mixed) or replaced
          -- Each place is put back by itself in the whole document.
          or (level = 1 and (select count(*) from touched) > 500))
      order by below, level
    )
    select path, name, old, new from change where name in (select name from kept)
    order by length(steps), lpad(path[length(steps)], 9, '0') collate "C";
end $$;

-- The locks ----------------------------------------------------------------------------------------------------------

-- Of the locks those that are left to it: a person may take some away, nobody may add one or change whose it is.
create function private.locks_left(p_before jsonb, p_now jsonb) returns jsonb
language sql stable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(p_before)
  where key in (select jsonb_object_keys(p_now)) or private.is_agent()
$$;

-- The locks after a change: each leaf that a person changed is theirs, also where an agent did it in their words; with a leaf
-- that is gone its lock goes.
create function private.locks_after(p_locks jsonb, p_old jsonb, p_new jsonb) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  v_by uuid := case when private.is_agent() then private.person_behind() else auth.uid() end;
  v_lock jsonb := jsonb_build_object('by', v_by, 'at', now());
begin
  return (
    select
      p_locks - coalesce(array_agg(name) filter (where private.is_leaf(c.new) is not true), '{}')
      || coalesce(jsonb_object_agg(name, v_lock) filter (where private.is_leaf(c.new) and v_by is not null), '{}')
    from private.changes(p_old, p_new) as c);
end $$;

-- A person's locks on what they wrote at a path, for where it stood there before: by writing it they say that it is right.
create function private.locks_at(p_fields jsonb, p_path text[]) returns jsonb
language sql stable set search_path = ''
as $$
  select coalesce(jsonb_object_agg(leaf.name, jsonb_build_object('by', auth.uid(), 'at', now())), '{}')
  from private.name_at(p_fields, p_path) as above
  cross join lateral (
    select above as name, p_fields #> p_path as value
    union all
    select above || case when starts_with(node.name, '[') then '' else '.' end || node.name, node.value
    from private.nodes(p_fields #> p_path) as node
  ) as leaf
  where private.is_leaf(leaf.value) and auth.uid() is not null
$$;

create function public.unlock_extraction_field(p_extraction_id uuid, p_field_path text[]) returns jsonb
language plpgsql set search_path = ''
as $$
declare
  v_was public.extractions := private.locked_extraction(p_extraction_id);
  v_row public.extractions;
  v_path text[] := private.checked_path(p_field_path);
  v_name text := private.name_at(v_was.extracted_fields, v_path);
  v_locks text[] := array(
    select key from jsonb_object_keys(private.at_or_below(v_was.locks, v_name)) as key order by key);
begin
  if v_name is null or cardinality(v_locks) = 0 then
    raise exception 'Nothing at path % is locked.', left(coalesce(v_name, array_to_string(v_path, '.')), 200)
      using errcode = 'PT422';
  end if;
  if private.is_agent() then
    raise exception 'A person takes a lock away.' using errcode = 'PT422';
  end if;
  update public.extractions set locks = locks - v_locks where id = v_was.id returning * into v_row;
  return jsonb_build_object('path', v_name, 'unlocked', to_jsonb(v_locks), 'version', v_row.version);
end $$;

-- The proposals ------------------------------------------------------------------------------------------------------

-- Keeps what an agent would have written; not again what waits already, or was rejected: both are for the value that stands.
create function private.propose(
  p_extraction public.extractions, p_path text[], p_name text, p_old jsonb, p_new jsonb, p_scores jsonb, p_evidence jsonb
) returns void
language plpgsql set search_path = ''
as $$
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
    p_extraction.org_id, p_extraction.id, p_path, p_name, p_old, p_new, p_scores, p_evidence,
    nullif(current_setting('fieldmark.run_id', true), '')::uuid, current_setting('fieldmark.call_id', true));
end $$;

-- After the fields changed: proposals for items that closed up go with them, those that are remembered as rejected too, and
-- one for another value than now stands, or for what may be another row now, is none any more. (That other row may hold
-- the same value.)
create function private.keep_proposals(p_now public.extractions, p_was jsonb, p_removed text[]) returns void
language plpgsql set search_path = ''
as $$
declare
  v_step integer := cardinality(p_removed);
begin
  if jsonb_typeof(p_was #> p_removed[:v_step - 1]) = 'array' then
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step] = p_removed;
    update public.extraction_proposals set
      path = path[:v_step - 1] || (path[v_step]::integer - 1)::text || path[v_step + 1:],
      name = private.name_at(
        p_now.extracted_fields, path[:v_step - 1] || (path[v_step]::integer - 1)::text || path[v_step + 1:]),
      confidence_scores = private.closed_up(confidence_scores, confidence_scores, p_was, p_removed),
      evidence = private.closed_up(evidence, evidence, p_was, p_removed)
    where extraction_id = p_now.id and status in ('pending', 'rejected') and path[:v_step - 1] = p_removed[:v_step - 1]
      and case when path[:v_step - 1] = p_removed[:v_step - 1] then path[v_step]::integer > p_removed[v_step]::integer end;
  elsif p_removed is null and exists (
    select from public.extraction_proposals where extraction_id = p_now.id and status in ('pending', 'rejected')
  ) then
    -- A single leaf that changes makes no other row: two proposals for one row are accepted one after the other.
    update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
    where id in (
      select proposal.id
      from public.extraction_proposals as proposal
      cross join lateral generate_series(1, cardinality(proposal.path) - 1) as n
      join private.shifted(p_was, p_now.extracted_fields) as item on item.path = proposal.path[:n]
      where proposal.extraction_id = p_now.id and proposal.status in ('pending', 'rejected') and item.leaves > 1);
  end if;
  update public.extraction_proposals set status = 'superseded', decided_at = clock_timestamp()
  where extraction_id = p_now.id and status in ('pending', 'rejected') and (
    private.name_at(p_now.extracted_fields, path) is distinct from name
    or (p_now.extracted_fields #> path)::text <> old::text);
end $$;

-- A person decides a proposal, once. Accepted, it is written as theirs. Security definer, because nobody may write proposals.
create function public.decide_extraction_proposal(p_extraction_id uuid, p_proposal_id uuid, p_accepted boolean)
returns jsonb
language plpgsql security definer set search_path = ''
as $$
declare
  v_was public.extractions;
  v_row public.extractions;
  v_proposal public.extraction_proposals;
begin
  select * into v_was from public.extractions
  where id = p_extraction_id and org_id in (select private.my_org_ids()) for no key update;
  if not found then
    raise exception 'There is no such extraction.' using errcode = 'PT404';
  end if;
  select * into v_proposal from public.extraction_proposals where id = p_proposal_id and extraction_id = v_was.id;
  if not found then
    raise exception 'There is no such proposal.' using errcode = 'PT404';
  end if;
  if p_accepted is null or private.is_agent() then
    raise exception 'A person accepts a proposal or rejects it.' using errcode = 'PT422';
  end if;
  if v_proposal.status <> 'pending' then
    raise exception 'The proposal for % is % already.', left(v_proposal.name, 200), v_proposal.status
      using errcode = 'PT409';
  end if;
  update public.extraction_proposals set
    status = case when p_accepted then 'accepted' else 'rejected' end, decided_by = auth.uid(),
    decided_at = clock_timestamp()
  where id = v_proposal.id;
  v_row := case
    when not p_accepted then v_was
    when v_proposal.new is null
      then private.written(v_was, v_was.extracted_fields #- v_proposal.path, p_removed => v_proposal.path)
    else private.written(
      v_was, jsonb_set(v_was.extracted_fields, v_proposal.path, v_proposal.new), v_proposal.confidence_scores,
      v_proposal.evidence)
  end;
  return jsonb_build_object(
    'path', v_proposal.name, 'value', v_row.extracted_fields #> v_proposal.path, 'version', v_row.version);
end $$;

-- Rights ------------------------------------------------------------------------------------------------------------

alter table public.extraction_proposals enable row level security;
alter table public.extraction_proposals force row level security;
revoke all on public.extraction_proposals from anon, authenticated;
grant select on public.extraction_proposals to authenticated;

create policy "members read the proposals for their extractions" on public.extraction_proposals
  for select to authenticated using (org_id in (select private.my_org_ids()));

revoke execute on all functions in schema private from public;
grant execute on function
  private.person_behind(), private.binding(jsonb), private.held(public.extractions, jsonb, text[]),
  private.shifted(jsonb, jsonb, text[]), private.at_or_below(jsonb, text, boolean)
  to authenticated;
revoke execute on function
  public.unlock_extraction_field(uuid, text[]), public.decide_extraction_proposal(uuid, uuid, boolean)
  from public, anon;
grant execute on function
  public.unlock_extraction_field(uuid, text[]), public.decide_extraction_proposal(uuid, uuid, boolean)
  to authenticated;

-- Front ends follow proposals as they come and are decided.
do $$
begin
  if not exists (
    select from pg_publication_tables
    where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = 'extraction_proposals'
  ) then
    alter publication supabase_realtime add table public.extraction_proposals;
  end if;
end $$;

-- An owner that is neither superuser nor BYPASSRLS is subject to forced row security, and the security definer functions
-- above act as the owner.
do $$
begin
  if not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    execute format(
      'create policy "definer functions act as the owner" on public.extraction_proposals to %I '
      'using (true) with check (true)', current_user);
  end if;
end $$;
