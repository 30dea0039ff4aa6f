-- Extractions: the typed fields of a document. extraction_check.sql checks every write.

create table public.extractions (
  id uuid primary key default private.new_id(),
  org_id uuid not null default private.only_organisation(),
  document_id uuid not null,
  created_by uuid default auth.uid(),
  user_id uuid default auth.uid() check (user_id = created_by),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  document_type text check (char_length(document_type) between 1 and 200),
  -- The user who set the document type, if any.
  document_type_by uuid,
  status text not null default 'in_progress' check (status in ('in_progress', 'completed', 'failed')),
  -- The user who completed it, or approved all writes by agents. Maintained by extraction_check.
  reviewed_by uuid,
  reviewed_at timestamptz,
  -- `json` keeps the order of the fields.
  schema json check (json_typeof(schema) = 'object'),
  -- The version of the stored schema, and of the prompt, that the extraction uses.
  schema_revid uuid,
  prompt_revid uuid,
  -- The root run that created it; null if a user did.
  run_id uuid,
  extracted_fields jsonb not null default '{}' check (jsonb_typeof(extracted_fields) = 'object'),
  -- By path name: {"vendor.name": 0.9, "items[2].price": 1}. A nested object could not score both `a` and `a.b`.
  confidences jsonb not null default '{}' check (jsonb_typeof(confidences) = 'object'),
  -- The confidences of the values in the shape of the fields. Derived by check_extraction, which also accepts a write.
  confidence_scores jsonb not null default '{}' check (jsonb_typeof(confidence_scores) = 'object'),
  evidence jsonb not null default '{}' check (jsonb_typeof(evidence) = 'object'),
  -- Leaves that a user set, by path name: {"by": user, "at": time, "was": the agent's value, if there was one, "whole":
  -- true, if the user confirmed it with its list, object or call}. Agents
  -- may not change them.
  locks jsonb not null default '{}' check (jsonb_typeof(locks) = 'object'),
  -- By path name: missing, breaks_schema or breaks_rule. Found by the service, which knows the schema.
  problems jsonb not null default '{}' check (jsonb_typeof(problems) = 'object'),
  -- By path name, what only a second reading has: {"value", …} of a field without a value; {"rows"} of a list with other
  -- rows, each the index of a stored row, or {"row", …}. Both with its location, if it is printed.
  second_reading jsonb not null default '{}' check (jsonb_typeof(second_reading) = 'object'),
  -- Whether the fields follow the schema. Null: there is none, or the service has not checked this version yet.
  is_valid boolean,
  -- By path name: the reason for which a field needed review when a user confirmed it or completed the extraction.
  accepted jsonb not null default '{}' check (jsonb_typeof(accepted) = 'object'),
  -- The number of fields that a person has to look at. Maintained by check_extraction.
  review_count integer not null default 0,
  -- Since an agent completed it: its model, and by private.review_policy from which confidence a value is accepted without a
  -- look (by pattern; `*`: all others), and the rate of audits.
  model text,
  min_confidences jsonb not null default '{}',
  audit_rate float8,
  -- Extractions whose pages look alike have the same layout: see private.layout_of.
  layout uuid,
  layout_words integer[],
  -- The last field that had its chance to be drawn.
  drawn_to bigint not null default 0,
  -- The values that were accepted without a look.
  unseen_count integer not null default 0,
  -- The newest ten removed list items, newest first: {"version", "path", "audits"}, and what was stored about their values
  -- and the list. Restoring the version before brings all of it back.
  removed_items jsonb not null default '[]',
  -- Incremented with each change of extracted_fields.
  version integer not null default 0,
  -- An agent created it by itself, and no one has accepted it yet. Maintained by the database.
  is_suggestion boolean not null default false,
  -- Of a schema that is being tried out: no change is reported for it.
  is_trial boolean not null default false,
  -- Which of a document's extractions is the current one: the one with the lowest precedence, then the newest. Below 2
  -- they count: those that are empty hide no other, those that failed, trials, and suggestions no one has accepted are
  -- never current. A column, since a function would be called for each row of a table.
  precedence smallint not null generated always as (
    case when is_suggestion or is_trial then 3 when status = 'failed' then 2 when status = 'in_progress' and version = 0 then 1 else 0 end
  ) stored,
  unique (id, document_id, org_id),
  unique (id, org_id),
  -- Invisible characters, which make two keys look the same. Same list as domain/invisible.py.
  constraint has_no_invisible_characters check (
    extracted_fields::text !~ ('[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e'
      '\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
      '\U000e0000-\U000e0fff]')
  ),
  foreign key (document_id, org_id) references public.documents (id, org_id) on delete cascade,
  foreign key (schema_revid, org_id) references public.schema_versions (id, org_id),
  foreign key (prompt_revid, org_id) references public.prompt_versions (id, org_id),
  check (schema_revid is null or schema is not null)
);
create index extractions_schema_revid on public.extractions (schema_revid, created_at desc, id desc)
  where schema_revid is not null;
-- The list of tables asks when each last changed.
create index extractions_table_changed on public.extractions (schema_revid, updated_at desc)
  where schema_revid is not null and precedence < 2;
create index extractions_prompt_revid on public.extractions (prompt_revid, document_id) where prompt_revid is not null;
create index extractions_run_id on public.extractions (run_id) where run_id is not null;
create index extractions_document_id on public.extractions (document_id, created_at desc, id desc);
create index extractions_org_id on public.extractions (org_id, created_at desc, id desc);
-- Open pages ask for what has just changed.
create index extractions_changed on public.extractions (org_id, updated_at);
create index extractions_status on public.extractions (org_id, status, created_at desc, id desc);
create index extractions_document_type on public.extractions (org_id, document_type, created_at desc, id desc);
create index extractions_to_review on public.extractions (org_id, created_at desc, id desc) where review_count > 0;
create index extractions_to_check on public.extractions (updated_at)
  where schema is not null and is_valid is null;
create index extractions_unseen on public.extractions (schema_revid, model) include (unseen_count, audit_rate, created_at, layout)
  where audit_rate > 0;
create index extractions_layout on public.extractions (layout) where layout is not null;
create index extractions_corrected on public.extractions (org_id, created_at desc)
  where status = 'completed' and locks <> '{}';
select private.protect_table('public.extractions', p_members_read => true);
grant insert (id, org_id, user_id, document_id, schema, schema_revid, prompt_revid, is_trial),
  update (
    document_type, status, extracted_fields, confidences, confidence_scores, evidence, locks
  ) on public.extractions to authenticated;

create policy "members begin extractions of their own" on public.extractions for insert to authenticated
  with check (org_id in (select private.my_writable_org_ids()) and created_by = (select auth.uid()) and user_id = created_by);
create policy "members change their extractions" on public.extractions
  for update to authenticated using (org_id in (select private.my_writable_org_ids()));

-- The schema version that a new extraction follows: the given one, else that of the prompt, unless the extraction has a
-- schema of its own. Refuses deleted items.
create function private.schema_to_extract(
  p_org_id uuid, p_prompt_revid uuid, p_schema_revid uuid, p_has_schema boolean default false
) returns uuid language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  v_prompt record;
  v_schema record;
  v_refusal text := 'The %s %L is deleted, so nothing can be extracted with it. Choose another one.';
begin
  if p_prompt_revid is not null then
    select v.schema_id, v.schema_version, p.name, p.deleted_at is null as is_usable into v_prompt
    from public.prompt_versions as v join public.prompts as p on p.id = v.prompt_id
    where v.id = p_prompt_revid and v.org_id = p_org_id;
    perform private.check_found(found, 'version of a prompt'),
      private.require(v_prompt.is_usable, format(v_refusal, 'prompt', v_prompt.name), 'PT409', 'deleted');
    if p_schema_revid is null and not p_has_schema then
      p_schema_revid := private.schema_revid_of(v_prompt.schema_id, v_prompt.schema_version);
    end if;
  end if;
  if p_schema_revid is not null then
    select s.name, s.deleted_at is null as is_usable into v_schema
    from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
    where v.id = p_schema_revid and v.org_id = p_org_id;
    perform private.check_found(found, 'version of a schema'),
      private.require(v_schema.is_usable, format(v_refusal, 'schema', v_schema.name), 'PT409', 'deleted');
  end if;
  return p_schema_revid;
end $$;

-- Fills in the run, the version of a schema, and its text. (Named before check_extraction, so that it looks at the text
-- that is stored.)
create function private.apply_extraction_defaults() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  v_schema json;
begin
  new.run_id := private.this_root_run();
  new.is_suggestion := private.is_proposed(new.run_id);
  new.schema_revid := private.schema_to_extract(
    new.org_id, new.prompt_revid, new.schema_revid, new.schema is not null);
  if new.schema_revid is not null then
    select schema into v_schema from public.schema_versions where id = new.schema_revid;
    perform private.require(
      coalesce(new.schema::jsonb = v_schema::jsonb, true), '`schema` differs from the schema version given. Send only one of them.');
    new.schema := v_schema;
  end if;
  return new;
end $$;

create trigger apply_extraction_defaults before insert on public.extractions
  for each row execute function private.apply_extraction_defaults();

-- Moves an extraction to another version of its schema and reopens it.
create function private.follow_schema(p_extraction_id uuid, p_schema_revid uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_schema json;
begin
  select v.schema into v_schema
  from public.extractions as e join public.schema_versions as v on v.org_id = e.org_id and v.id = p_schema_revid
  where e.id = p_extraction_id and e.org_id in (select private.my_writable_org_ids()) and private.is_service();
  perform private.require(found, 'Extraction or schema version not found.', 'PT404');
  update public.extractions set schema = v_schema, schema_revid = p_schema_revid, status = 'in_progress'
  where id = p_extraction_id;
end $$;

create function private.count_references_to_prompt(p_prompt_id uuid) returns table (extractions bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select count(*) from public.prompt_versions as v join public.extractions as e on e.prompt_revid = v.id
  where v.prompt_id = p_prompt_id
$$;

create function private.count_references_to_tag(p_tag_id uuid) returns table (documents bigint, prompts bigint)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select (select count(*) from public.document_tags where tag_id = p_tag_id),
    (select count(*) from public.prompts as p
      where p.org_id = (select org_id from public.tags where id = p_tag_id) and p.deleted_at is null
        and p_tag_id = any (
          (select tag_ids from public.prompt_versions where prompt_id = p.id order by number desc limit 1)::uuid[]))
$$;

-- Deletes an extraction with its runs. Members delete their own and their keys' extractions, owners any.
create function public.delete_extraction(p_extraction_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from public.extractions
  where id = p_extraction_id and private.may_delete(org_id, created_by);
  perform private.check_found(found, 'extraction');
end $$;
