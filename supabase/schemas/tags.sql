-- Tags: labels for an organisation's documents and prompts.

create table public.tags (
  id uuid primary key default private.new_id(),
  org_id uuid not null references public.organisations (id) on delete cascade,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  name text not null constraint has_a_name check (private.is_name(name)),
  color text not null default '#808080' check (color ~ '^#[0-9a-f]{6}$'),
  deleted_at timestamptz,
  run_id uuid,
  unique (id, org_id)
);
create unique index tags_name on public.tags (org_id, lower(name)) where deleted_at is null;
create index tags_org_id on public.tags (org_id, created_at desc, id desc);
create index tags_run_id on public.tags (run_id) where run_id is not null;
select private.protect_table('public.tags', p_members_read => true);

create table public.document_tags (
  org_id uuid not null,
  document_id uuid not null,
  tag_id uuid not null,
  created_by uuid default auth.uid(),
  created_at timestamptz not null default now(),
  run_id uuid,
  -- Copied from the document, to list a tag's documents in this order.
  document_created_at timestamptz not null,
  primary key (document_id, tag_id),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (tag_id, org_id) references public.tags (id, org_id) on delete cascade
);
create index document_tags_tag_id on public.document_tags (tag_id, document_created_at desc, document_id desc);
create index document_tags_org_id on public.document_tags (org_id);
create index document_tags_run_id on public.document_tags (run_id) where run_id is not null;
select private.protect_table('public.document_tags', p_members_read => true);

-- Creates a tag and returns its id. The color is `#` and six hexadecimal digits.
create function public.create_tag(p_org_id uuid, p_name text, p_color text default '#808080') returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tag_id uuid;
begin
  perform private.check_org_writable(p_org_id, 'organisation'), private.check_name(p_name);
  perform private.require(lower(p_color) ~ '^#[0-9a-f]{6}$', 'A color must look like #1e90ff.');
  perform private.check_item_limit(
    (select count(*) from public.tags where org_id = p_org_id and deleted_at is null),
    'The organisation has 10,000 tags, the maximum. Delete one first.');
  insert into public.tags (org_id, name, color, run_id)
  values (p_org_id, p_name, lower(p_color), private.this_root_run())
  on conflict (org_id, lower(name)) where deleted_at is null do nothing
  returning id into v_tag_id;
  perform private.require(v_tag_id is not null, 'A tag with this name already exists.', 'PT409', 'name_taken');
  return v_tag_id;
end $$;

create function public.update_tag(p_tag_id uuid, p_name text default null, p_color text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tag public.tags;
begin
  select * into v_tag from public.tags where id = p_tag_id and deleted_at is null for no key update;
  perform private.check_org_writable(v_tag.org_id, 'tag');
  perform private.check_name(coalesce(p_name, v_tag.name));
  perform private.require(lower(coalesce(p_color, v_tag.color)) ~ '^#[0-9a-f]{6}$', 'A color must look like #1e90ff.');
  begin
    update public.tags set name = coalesce(p_name, name), color = lower(coalesce(p_color, color)),
      -- Once a user changes the tag, it no longer belongs to the run.
      run_id = case when run_id = private.this_root_run() then run_id end
    where id = p_tag_id;
  exception when unique_violation then
    raise exception 'A tag with this name already exists.' using errcode = 'PT409', detail = 'name_taken';
  end;
end $$;

-- Hides a tag and returns how many documents and prompts use it.
create function public.delete_tag(p_tag_id uuid) returns table (documents bigint, prompts bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.tags set deleted_at = now()
  where id = p_tag_id and deleted_at is null and private.may_delete(org_id, created_by);
  perform private.require(found, 'Tag not found, or you may not delete it. Its creator and owners can.', 'PT404');
  return query select * from private.count_references_to_tag(p_tag_id);
end $$;

create function public.tag_document(p_document_id uuid, p_add uuid[] default '{}', p_remove uuid[] default '{}')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
  v_created_at timestamptz;
begin
  -- Serialised, so that the tags are counted correctly.
  select org_id, created_at into v_org, v_created_at from public.documents where id = p_document_id for no key update;
  perform private.check_org_writable(v_org, 'document');
  perform private.require(
    greatest(cardinality(p_add), cardinality(p_remove)) <= 100, 'One request can add or remove at most 100 tags.');
  perform from unnest(p_add) as given
  where not exists (select from public.tags where id = given and org_id = v_org and deleted_at is null);
  perform private.require(not found, 'Tag not found.', 'PT404');
  delete from public.document_tags where document_id = p_document_id and tag_id = any (p_remove);
  insert into public.document_tags (org_id, document_id, tag_id, run_id, document_created_at)
  select v_org, p_document_id, given, private.this_root_run(), v_created_at from unnest(p_add) as given
  -- Once a user adds the tag too, it no longer belongs to the run.
  on conflict (document_id, tag_id) do update set run_id = null
  where excluded.run_id is null and document_tags.run_id is not null;
  perform private.require(
    (select count(*) from public.document_tags where document_id = p_document_id) <= 100, 'A document has at most 100 tags.');
end $$;

create function public.rename_document(p_document_id uuid, p_filename text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_org uuid;
begin
  select org_id into v_org from public.documents where id = p_document_id for no key update;
  perform private.check_org_writable(v_org, 'document'), private.check_name(p_filename);
  update public.documents set filename = p_filename where id = p_document_id;
end $$;
