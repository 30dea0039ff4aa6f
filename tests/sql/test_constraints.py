"""Every check constraint rejects bad values, foreign keys include the organisation, and unique keys are complete."""

from __future__ import annotations

import re

import psycopg
import pytest
from role_connections import Roles, Sample

_LONG = "repeat('x', 501)"
_ODD = "'odd'"

# Rows for tables without sample rows, and values for columns that the sample leaves empty.
ROWS = (
    "insert into public.queue_limits (org_id) select id from public.organisations on conflict do nothing",
    "insert into private.organisation_deletions (org_id) select id from public.organisations",
    """insert into public.usage_by_day (
         org_id, day, agent, model, slot, documents_read, messages, unpriced, input_tokens, output_tokens,
         cache_write_tokens, cache_read_tokens, cost_usd)
       select id, '2026-01-01', 'a', 'm', 0, 0, 0, 0, 0, 0, 0, 0, 0 from public.organisations""",
    "insert into private.files_to_delete (storage_path, org_id) select id || '/a.pdf', id from public.organisations",
    """insert into public.documents (id, org_id, filename, storage_path, parent_document_id, number_in_parent)
       select new.id, org_id, 'b.txt', concat_ws('/', org_id, new.id, 'b.txt'), d.id, 1
       from public.documents as d, (select private.new_id() as id) as new limit 1""",
    "insert into public.changes (org_id, type) select id, 'webhook.test' from public.organisations",
    """insert into public.webhooks (org_id, url, secret) select id, 'https://a.b', 'whsec_' || repeat('A', 44)
       from public.organisations""",
    """insert into public.webhook_deliveries (org_id, webhook_id, change_id)
       select w.org_id, w.id, c.id from public.webhooks as w, public.changes as c where w.org_id = c.org_id
       on conflict do nothing""",
    """insert into public.sources (org_id, kind, address, username, secret)
       select id, 'bucket', 'https://a.b/c', 'u', 's' from public.organisations on conflict do nothing""",
    """insert into private.source_objects (source_id, org_id, name, version)
       select id, org_id, 'b.pdf', '' from public.sources on conflict do nothing""",
    """insert into public.source_failures (source_id, org_id, name, version, error_code)
       select id, org_id, 'c.pdf', '', 'timeout' from public.sources on conflict do nothing""",
    "update public.agent_sessions set uuid = number::text",
    "update public.runs set idempotency_key = id::text",
    "update public.organisations set personal_of = id",
    "insert into private.search_orgs (org_id) select id from public.organisations",
    """insert into private.indexing_queue (document_id, org_id) select id, org_id from public.documents
       on conflict do nothing""",
    """insert into private.search_chunks (
         document_id, number, org_number, page, first_word, last_word, language, length, keys, counts)
       select id, 1, 1, 1, 0, 0, 'simple', 1, '{1}', '' from public.documents""",
    "insert into private.search_terms (org_number, key, chunks) values (1, 1, 1)",
    "insert into private.search_embedder (name) values ('a/1')",
    """insert into private.search_vectors (org_number, document_id, number, embedder, embedding)
       select 1, id, 1, 'a/1', '{1}' from public.documents""",
    """insert into private.embedding_queue (org_id, document_id) select org_id, id from public.documents
       on conflict do nothing""",
)


# For each table, updates that a constraint rejects.
def _rows(table: str) -> dict[str, list[str]]:
    """Parse lines of a table name and a value. An indented line continues the row above it."""
    rows = [row.split(" | ") for row in re.sub(r"\n +", " ", table.strip()).split("\n")]
    return {name: rest for name, *rest in rows}


INVALID_UPDATES = _rows(
    r"""
public.agent_sessions | session_id = '' | subpath = $LONG
private.agents | name = 'A' | approval = $ODD
private.agent_tasks | task = 'A' | needs = '{odd}' | may_have = '{odd}' | approval = $ODD
public.documents | user_id = gen_random_uuid() |
    filename = '' | storage_path = 'a.pdf' | media_type = '' | byte_size = -1 | status = $ODD |
    page_count = 0 | extraction_stage = $ODD | status = 'failed', error = null |
    status = 'ready', error = null, media_type = null |
    error_code = 'damaged', error = null | status = 'failed', error = 'x', error_code = $ODD | warnings = '{}' |
    number_in_parent = 1 | parent_document_id = gen_random_uuid(), number_in_parent = 0 | unlocked_path =
    storage_path | external_id = '' | metadata = '[]' | content_sha256 = 'x' | pages_read = -1 |
    pages_read = 2, pages_to_read = 1 | extract_when_read = false, extract_revid = gen_random_uuid()
public.changes | number = 0 | type = $ODD
public.webhooks | url = 'example.com' | types = array_fill('x'::text, '{51}') | secret = 'x' | disabled_reason = $ODD
public.webhook_deliveries | status = $ODD | attempts = -1
public.sources | kind = $ODD | address = 'ftp://a.b' | folder = repeat('x', 501) | username = '' | secret = '' |
    extract = repeat('x', 201) | attempts = -1 | error_code = 'x' | taken = -1 | skipped = '[]'
private.source_objects | name = '' | version = repeat('x', 201) | reason = $ODD
public.source_failures | name = '' | version = repeat('x', 201) | attempts = -1
public.document_pages | number = 0 | width = 'NaN' | height = 'Infinity' | words = '{}'
public.extraction_journal | steps = 'x' | actor = $ODD
public.fields | kind = $ODD, number = null | number = null | kind = 'day', number = null | text = null | status = $ODD |
    is_absent = true | outcome = $ODD
public.extraction_proposals | status = $ODD
public.audits | outcome = $ODD
public.schemas | name = '' | max_error = 0
public.schema_versions | number = 0 | schema = '[]'
public.prompts | name = 'a' || chr(10) || 'b'
public.prompt_versions | number = 0 | content = '' | model = '' | schema_version = 1, schema_id =
    null | tag_ids = array_fill(id, '{51}')
public.tags | name = ' a' | color = 'red'
public.auto_creations | status = $ODD | kind = '' | labels = array_fill('x'::text, '{201}') | matched = '[]' |
    status = 'failed', error = null
public.extractions | user_id = gen_random_uuid() | document_type = '' | status = $ODD | schema = '[]' | schema = null,
    schema_revid = gen_random_uuid() | extracted_fields = '[]' | confidences = '[]' | problems = '[]' |
    second_reading = '[]' | accepted = '[]' |
    confidence_scores = '[]' | evidence = '[]' | locks = '[]' |
    extracted_fields = '{"a": "\u202e"}'
public.organisations | name = '' | max_error = 2 | approvers = $ODD | second_reading = $ODD |
    auto_approved_tools = array_fill('x'::text, '{51}')
public.api_keys | name = '' | prefix = 'x' | hash = '' | scopes = '{}'
public.invitations | email = '' | role = $ODD | hash = ''
public.memberships | role = $ODD
public.run_events | number = 0 | body = '[]'
public.runs | result = '[]' | input = '[]' | parent_call_id = '', parent_run_id = id | approval = $ODD |
    auto_approved_tools = array_fill('x'::text, '{101}') | model = '' | max_cost_usd = 'NaN' | max_turns = 0 |
    idempotency_key = '' | request_hash = 'x' | status = $ODD | examples = '{}' | document_id = null, extraction_id
    = gen_random_uuid() | parent_run_id = null, parent_call_id = 'a' | status = 'failed', error = null | status =
    'completed', error = 'x' | status = 'awaiting_approval', waiting_call = null | status = 'running', attached =
    true
public.threads | title = '' | working_state = '[]'
public.stacks | name = '' | user_id = gen_random_uuid()
public.saved_views | name = '' | user_id = gen_random_uuid() | settings = '[]' | stack_id = null
public.comments | user_id = gen_random_uuid() | path = '' | body = ' '
public.stack_documents | user_id = gen_random_uuid()
public.stack_tables | row_path = '' | user_id = gen_random_uuid()
public.tool_calls | id = '' | arguments_hash = 'x' | status = $ODD, approved_by = 'policy', result = null |
    approved_by = $ODD | target_hash = 'x' | code = '' | status = 'pending', approved_by = 'policy', result = null |
    status = 'done', approved_by = 'policy', result = null
public.usage | message_id = '' | model = '' | input_tokens = -1 | output_tokens = -1 | cache_write_5m_tokens = -1 |
    cache_write_1h_tokens = -1 | cache_read_tokens = -1 | cost_usd = -1
public.credit_limits | max_usd = -1 | max_concurrent_runs = 0 | max_documents = -1 | max_bytes = -1
public.upload_rules | number = 0 | document_type = '' | filename = '' | sender = '' | document_type = null |
    schema_id = null
public.usage_by_day | slot = 8
public.queue_limits | max_waiting_runs = -1 | max_waiting_documents = -1
private.queue_defaults | is_singleton = false | runs = -1 | documents = -1
private.search_chunks | number = -1
private.search_vectors | number = 0
private.search_embedder | is_singleton = false
""".replace("$ODD", _ODD).replace("$LONG", _LONG)
)


def test_every_check_constraint_rejects_bad_values(roles: Roles, sample: Sample) -> None:
    refused: set[str] = set()
    for table, assignments in INVALID_UPDATES.items():
        for assignment in assignments:
            with roles.as_owner() as owner:
                owner.execute("set local session_replication_role = replica")  # no trigger comes before
                for row in ROWS:
                    owner.execute(row)
                with pytest.raises(psycopg.errors.CheckViolation) as error:
                    changed = owner.execute(f"update {table} set {assignment}".encode()).rowcount
                    pytest.fail(f"{table}: {assignment} was taken ({changed} rows)")
            refused.add(str(error.value.diag.constraint_name))
    checks = roles.owner.execute(
        f"select conname from pg_constraint where contype = 'c' and conrelid <> 0 and {_OWN_TABLES}"
    )
    assert {name for (name,) in checks} == refused, "each has a row in BAD"


_OWN_TABLES = "connamespace = any ('{public,private}'::regnamespace[])"

# For each table, its foreign keys.
FOREIGN_KEYS = _rows(
    """
public.agent_sessions | org_id
private.agent_tasks | agent
public.documents | org_id | parent_document_id org_id | extract_revid org_id | org_id assignee_id
public.document_pages | document_id org_id
public.extraction_journal | extraction_id org_id
public.fields | extraction_id document_id org_id
public.audits | extraction_id org_id
public.extraction_proposals | extraction_id org_id
public.extractions | document_id org_id | schema_revid org_id | prompt_revid org_id
public.schemas | org_id
public.schema_versions | schema_id org_id
public.prompts | org_id
public.prompt_versions | prompt_id org_id | schema_id org_id | schema_id schema_version org_id
public.tags | org_id
public.document_tags | document_id org_id | tag_id org_id
public.auto_creations | document_id org_id | schema_revid org_id | prompt_revid org_id | extraction_id org_id
public.memberships | org_id | user_id
public.api_keys | org_id
public.invitations | org_id
public.settings_journal | org_id
public.changes | org_id
public.webhooks | org_id | run_id org_id
public.webhook_deliveries | webhook_id org_id | change_id org_id
public.sources | org_id | stack_id org_id
private.source_objects | source_id org_id
public.source_failures | source_id org_id
public.run_events | run_id org_id
public.runs | org_id | agent task | thread_id org_id | document_id org_id | extraction_id document_id org_id |
    parent_run_id org_id | stack_id org_id
public.threads | org_id | agent | document_id org_id
public.stacks | org_id
public.saved_views | schema_id org_id | stack_id org_id
public.comments | document_id org_id
public.stack_documents | stack_id org_id | document_id org_id
public.stack_tables | stack_id org_id | schema_id org_id
public.tool_calls | run_id org_id
public.usage | org_id
public.credit_limits | org_id
public.storage_usage | org_id
public.upload_rules | org_id | schema_id org_id | stack_id org_id
public.usage_by_day | org_id
public.queue_limits | org_id
private.search_orgs | org_id
private.indexing_queue | org_id
private.embedding_queue | org_id
"""
)


def test_every_foreign_key_includes_the_organisation(roles: Roles) -> None:
    rows = roles.owner.execute(
        f"""select conrelid::regclass::text, array(
              select attname::text from unnest(conkey) with ordinality as k (number, place)
              join pg_attribute on attrelid = conrelid and attnum = number order by place)
            from pg_constraint where contype = 'f' and {_OWN_TABLES}"""
    ).fetchall()
    assert sorted((table.removeprefix("public."), " ".join(columns)) for table, columns in rows) == sorted(
        (table.removeprefix("public."), columns) for table, keys in FOREIGN_KEYS.items() for columns in keys
    )
    loose = roles.owner.execute(
        f"""select conname from pg_constraint as c
            join pg_attribute as a on a.attrelid = c.conrelid and a.attname = 'org_id'
            join pg_attribute as b on b.attrelid = c.confrelid and b.attname = 'org_id'
            where contype = 'f' and {_OWN_TABLES}
              and array_position(conkey, a.attnum) is distinct from array_position(confkey, b.attnum)"""
    )
    assert loose.fetchall() == []


# Unique keys, without primary keys and (id, org_id).
UNIQUE = """
agent_sessions: org_id session_id subpath uuid
api_keys: hash
auto_creations: run_id
changes: org_id number
documents: org_id external_id
documents: parent_document_id number_in_parent
extractions: id document_id org_id
invitations: hash
organisations: personal_of
prompt_versions: prompt_id number
prompts: org_id lower(name)
runs: org_id created_by idempotency_key
saved_views: COALESCE(stack_id, schema_id) lower(name)
schema_versions: schema_id number org_id
schemas: org_id lower(name)
search_orgs: number
stack_tables: schema_id
stacks: org_id lower(name)
tags: org_id lower(name)
upload_rules: org_id number
usage_by_day: org_id day agent task schema_id model slot
webhook_deliveries: webhook_id change_id
"""


def test_tables_have_exactly_these_unique_keys(roles: Roles) -> None:
    rows = roles.owner.execute(
        """select relname, indisprimary, array(
             select pg_get_indexdef(i.indexrelid, n, false) from generate_series(1, i.indnkeyatts) as n)
           from pg_class as r left join pg_index as i on i.indrelid = r.oid and i.indisunique and i.indisvalid
           where r.relkind = 'r' and r.relnamespace = any ('{public,private}'::regnamespace[])"""
    ).fetchall()
    without = {table for table, *_ in rows} - {table for table, primary, _ in rows if primary}
    assert without == {"delta_channel"}  # of one row
    unique = {f"{table}: {' '.join(columns)}" for table, primary, columns in rows if primary is False}
    assert {one for one in unique if not one.endswith(": id org_id")} == set(UNIQUE.strip().split("\n"))
