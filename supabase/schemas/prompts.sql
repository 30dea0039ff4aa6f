-- Prompts: instructions for extractions, optionally with a schema. Every version is stored.

create table public.prompts (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  deleted_at timestamptz,
  run_id uuid,
  unique (id, org_id)
);
create unique index prompts_name on public.prompts (org_id, lower(name)) where deleted_at is null;
create index prompts_org_id on public.prompts (org_id, created_at desc, id desc);
create index prompts_run_id on public.prompts (run_id) where run_id is not null;
select private.protect_table('public.prompts', p_members_read => true);

create table public.prompt_versions (
  id uuid primary key default private.new_id(),
  org_id uuid not null,
  prompt_id uuid not null,
  number integer not null check (number > 0),
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null,
  content text not null check (char_length(content) between 1 and 20000),
  schema_id uuid,
  -- The number of the schema's version that the prompt uses; null: the latest when the prompt is used.
  schema_version integer,
  -- The model; null for the service's default.
  model text check (char_length(model) between 1 and 200),
  -- Tags of the documents it applies to. (Tags are hidden, not deleted, so these references stay valid.)
  tag_ids uuid[] not null default '{}' check (cardinality(tag_ids) <= 50),
  run_id uuid,
  call_id text,
  unique (id, org_id),
  unique (prompt_id, number),
  foreign key (prompt_id, org_id) references public.prompts (id, org_id) on delete cascade,
  check (schema_version is null or schema_id is not null),
  foreign key (schema_id, org_id) references public.schemas (id, org_id) on delete cascade,
  foreign key (schema_id, schema_version, org_id) references public.schema_versions (schema_id, number, org_id)
    on delete cascade
);
create index prompt_versions_org_id on public.prompt_versions (org_id);
create index prompt_versions_schema_id on public.prompt_versions (schema_id, schema_version);
select private.protect_table('public.prompt_versions', p_members_read => true);

-- The version of a schema that a prompt uses now: the pinned one, else the latest.
create function private.schema_revid_of(p_schema_id uuid, p_number integer) returns uuid
language sql stable set search_path = pg_catalog, pg_temp as $$
  select id from public.schema_versions where schema_id = p_schema_id
    and number = coalesce(p_number, (select max(number) from public.schema_versions where schema_id = p_schema_id))
$$;

create function private.check_prompt(
  p_org_id uuid, p_name text, p_content text, p_schema_id uuid, p_model text, p_tag_ids uuid[]
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.check_name(p_name);
  perform private.require(
    char_length(p_content) between 1 and 20000, 'The content of a prompt must have 1 to 20,000 characters.');
  perform private.require(
    coalesce(char_length(p_model), 1) between 1 and 200, 'The name of a model must have 1 to 200 characters.');
  perform private.require(coalesce(cardinality(p_tag_ids), 0) <= 50, 'A prompt has at most 50 tags.');
  -- A concurrent delete waits for this lock and then sees the prompt.
  perform from public.schemas where id = p_schema_id and org_id = p_org_id and deleted_at is null for share;
  perform private.require(p_schema_id is null or found, 'Schema not found.', 'PT404');
  perform from unnest(p_tag_ids) as given
  where not exists (select from public.tags where id = given and org_id = p_org_id and deleted_at is null);
  perform private.require(not found, 'Tag not found.', 'PT404');
end $$;

create function private.check_pin(p_schema_id uuid, p_number integer) returns void
language sql stable set search_path = pg_catalog, pg_temp as $$
  select private.require(
    p_number is null or private.schema_revid_of(p_schema_id, p_number) is not null,
    format('The schema has no version %s. Give the number of one of its versions, or none for the latest.', p_number),
    'PT404')
$$;

-- Returns the id of the first version, the `prompt_revid`. With `p_schema_version` it keeps to that version of the schema.
create function public.create_prompt(
  p_org_id uuid, p_name text, p_content text, p_schema_id uuid default null, p_model text default null,
  p_tag_ids uuid[] default '{}', p_schema_version integer default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_prompt_id uuid;
  v_revid uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'),
    private.check_prompt(p_org_id, p_name, p_content, p_schema_id, p_model, p_tag_ids),
    private.check_pin(p_schema_id, p_schema_version);
  perform private.check_item_limit(
    (select count(*) from public.prompts where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 prompts, the maximum. Delete one first.');
  insert into public.prompts (org_id, name, run_id) values (p_org_id, p_name, private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_prompt_id;
  perform private.require(v_prompt_id is not null, 'A prompt with this name already exists.', 'PT409', 'name_taken');
  insert into public.prompt_versions
    (org_id, prompt_id, number, name, content, schema_id, schema_version, model, tag_ids, run_id, call_id)
  values (p_org_id, v_prompt_id, 1, p_name, p_content, p_schema_id, p_schema_version, p_model,
    coalesce(p_tag_ids, '{}'), private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Adds a version if anything changes and returns the latest version's id. `p_revid`: the version that must be the latest.
create function public.update_prompt(
  p_prompt_id uuid, p_name text, p_content text, p_schema_id uuid, p_model text, p_tag_ids uuid[],
  p_revid uuid default null, p_schema_version integer default null
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_head public.prompts;
  v_latest public.prompt_versions;
  v_revid uuid;
begin
  select * into v_head from public.prompts where id = p_prompt_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_head.org_id, 'prompt');
  select * into v_latest from public.prompt_versions where prompt_id = p_prompt_id order by number desc limit 1;
  if p_revid is not null and p_revid <> v_latest.id then
    raise exception 'The prompt has changed. Load the latest version first.' using errcode = 'PT409', detail = 'version_changed';
  end if;
  if (p_name, p_content, p_schema_id, p_schema_version, p_model, coalesce(p_tag_ids, '{}')) is not distinct from
    (v_latest.name, v_latest.content, v_latest.schema_id, v_latest.schema_version, v_latest.model, v_latest.tag_ids) then
    return v_latest.id;
  end if;
  -- References of the previous version may be hidden by now. They stay.
  perform private.check_prompt(
    v_head.org_id, p_name, p_content, nullif(p_schema_id, v_latest.schema_id), p_model,
    array(select unnest(p_tag_ids) except select unnest(v_latest.tag_ids))),
    private.check_pin(p_schema_id, p_schema_version);
  perform private.check_item_limit(v_latest.number, 'The prompt has 10,000 versions, the maximum. Create a new prompt.');
  begin
    update public.prompts set name = p_name where id = p_prompt_id;
  exception when unique_violation then
    raise exception 'A prompt with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
  insert into public.prompt_versions
    (org_id, prompt_id, number, name, content, schema_id, schema_version, model, tag_ids, run_id, call_id)
  values (v_head.org_id, p_prompt_id, v_latest.number + 1, p_name, p_content, p_schema_id, p_schema_version, p_model,
    coalesce(p_tag_ids, '{}'), private.this_run(), private.this_call())
  returning id into v_revid;
  return v_revid;
end $$;

-- Hides a prompt and returns how many extractions refer to it.
create function public.delete_prompt(p_prompt_id uuid) returns table (extractions bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.prompts set deleted_at = now()
  where id = p_prompt_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Prompt not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_prompt(p_prompt_id);
end $$;
