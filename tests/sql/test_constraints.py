"""Every constraint refuses: a value that it is there for, with all triggers out of the way."""

from __future__ import annotations

import re

import psycopg
import pytest
from doors import Doors, House

_LONG = "repeat('x', 501)"
_ODD = "'odd'"

# Rows of tables that a house has none in, and values of columns that it leaves open.
ROWS = (
    "insert into public.queue_limits (org_id) select id from public.organisations on conflict do nothing",
    "insert into private.departing_organisations (org_id) select id from public.organisations",
    """insert into public.usage_by_day (
         org_id, day, agent, model, slot, messages, unpriced, input_tokens, output_tokens, cache_write_tokens,
         cache_read_tokens, cost_usd)
       select id, '2026-01-01', 'a', 'm', 0, 0, 0, 0, 0, 0, 0, 0 from public.organisations""",
    "insert into private.files_to_delete (storage_path, org_id) select id || '/a.pdf', id from public.organisations",
    """insert into public.documents (id, org_id, filename, storage_path, parent_document_id, number_in_parent)
       select new.id, org_id, 'b.txt', concat_ws('/', org_id, new.id, 'b.txt'), d.id, 1
       from public.documents as d, (select private.new_id() as id) as new limit 1""",
    "update public.agent_sessions set uuid = number::text",
    "update public.runs set idempotency_key = id::text",
    "update public.organisations set personal_of = id",
    "insert into private.search_orgs (org_id) select id from public.organisations",
    """insert into private.search_due (document_id, org_id) select id, org_id from public.documents
       on conflict do nothing""",
    """insert into private.search_pieces (
         document_id, number, org_number, page, first_word, last_word, language, length, keys, counts)
       select id, 1, 1, 1, 0, 0, 'simple', 1, '{1}', '' from public.documents""",
    "insert into private.search_terms (org_number, key, pieces) values (1, 1, 1)",
    "insert into private.search_embedder (name) values ('a/1')",
    """insert into private.search_vectors (org_number, document_id, number, embedder, embedding)
       select 1, id, 1, 'a/1', '{1}' from public.documents""",
    """insert into private.search_vectors_due (org_id, document_id) select org_id, id from public.documents
       on conflict do nothing""",
)


# For each table what none of its rows may be made into.
def _rows(table: str) -> dict[str, list[str]]:
    """What stands behind the name of each table. An indented line goes on with the row before it."""
    rows = [row.split(" | ") for row in re.sub(r"\n +", " ", table.strip()).split("\n")]
    return {name: rest for name, *rest in rows}


BAD = _rows(
    r"""
public.agent_sessions | project = '' | session_id = '' | subpath = $LONG
private.agents | name = 'A' | approval = $ODD
private.agent_tasks | task = 'A' | needs = '{odd}' | may_have = '{odd}' | approval = $ODD
public.documents | filename = '' | storage_path = 'a.pdf' | media_type = '' | byte_size = -1 | status = $ODD |
    page_count = 0 | status = 'failed', error = null | status = 'ready', error = null, media_type = null |
    error_code = 'damaged', error = null | status = 'failed', error = 'x', error_code = $ODD | warnings = '{}' |
    number_in_parent = 1 | parent_document_id = gen_random_uuid(), number_in_parent = 0 | unlocked_path =
    storage_path | content_sha256 = 'x' | pages_read = -1 | pages_read = 2, pages_to_read = 1
public.document_pages | number = 0 | width = 0 | height = 'Infinity' | words = '{}'
public.extraction_journal | steps = 'x' | actor = $ODD
public.extraction_proposals | status = $ODD
public.withdrawn_examples | name = ''
public.schemas | name = ''
public.schema_versions | number = 0 | schema = '[]'
public.prompts | name = 'a' || chr(10) || 'b'
public.prompt_versions | number = 0 | content = '' | model = '' | tag_ids = array_fill(id, '{51}')
public.tags | name = ' a' | colour = 'red'
public.auto_creations | status = $ODD | kind = '' | labels = array_fill('x'::text, '{201}') | matched = '[]' |
    status = 'failed', error = null
public.extractions | document_type = '' | status = $ODD | schema = '[]' | schema = null, schema_revid =
    gen_random_uuid() | extracted_fields = '[]' | confidence_scores = '[]' | evidence = '[]' | locks = '[]' |
    extracted_fields = '{"a": "\u202e"}'
public.organisations | name = '' | approvers = $ODD
public.api_keys | name = '' | prefix = 'x' | hash = '' | scopes = '{}'
public.invitations | email = '' | role = $ODD | hash = ''
public.memberships | role = $ODD
public.run_events | number = 0 | body = '[]'
public.runs | result = '[]' | input = '[]' | parent_call_id = '', parent_run_id = id | approval = $ODD |
    auto_approved_tools = array_fill('x'::text, '{101}') | model = '' | max_cost_usd = 0 | max_turns = 0 |
    idempotency_key = '' | request_hash = 'x' | status = $ODD | examples = '{}' | document_id = null, extraction_id
    = gen_random_uuid() | parent_run_id = null, parent_call_id = 'a' | status = 'failed', error = null | status =
    'completed', error = 'x' | status = 'awaiting_approval', waiting_call = null | status = 'running', attached =
    true
public.threads | title = '' | working_state = '[]'
public.tool_calls | id = '' | arguments_hash = 'x' | status = $ODD, admitted_by = 'policy', result = null |
    admitted_by = $ODD | target_hash = 'x' | code = '' | status = 'pending', admitted_by = 'policy', result = null |
    status = 'done', admitted_by = 'policy', result = null
public.usage | message_id = '' | model = '' | input_tokens = -1 | output_tokens = -1 | cache_write_5m_tokens = -1 |
    cache_write_1h_tokens = -1 | cache_read_tokens = -1 | cost_usd = -1
public.credit_limits | max_usd = -1 | max_concurrent_runs = 0
public.usage_by_day | slot = 8
public.queue_limits | max_waiting_runs = -1 | max_waiting_documents = -1
private.most_waiting | is_only = false | runs = -1 | documents = -1
private.search_pieces | number = -1
private.search_vectors | number = 0
private.search_embedder | is_the_one = false
""".replace("$ODD", _ODD).replace("$LONG", _LONG)
)

# For each table the columns that name another row: the keys carry the organisation along. A row is refused that has all
# of a key and names nothing there is.
KEYS = _rows(
    """
public.agent_sessions | org_id
private.agent_tasks | agent
public.documents | org_id | parent_document_id org_id
public.document_pages | document_id org_id
public.extraction_journal | extraction_id org_id
public.extraction_proposals | extraction_id org_id
public.withdrawn_examples | extraction_id org_id
public.extractions | document_id org_id | schema_revid org_id | prompt_revid org_id
public.schemas | org_id
public.schema_versions | schema_id org_id
public.prompts | org_id
public.prompt_versions | prompt_id org_id | schema_id org_id
public.tags | org_id
public.document_tags | document_id org_id | tag_id org_id
public.auto_creations | document_id org_id | schema_revid org_id | prompt_revid org_id | extraction_id org_id
public.memberships | org_id | user_id
public.api_keys | org_id
public.invitations | org_id
public.run_events | run_id org_id
public.runs | org_id | agent task | thread_id org_id | document_id org_id | extraction_id document_id org_id |
    parent_run_id org_id
public.threads | org_id | agent | document_id org_id
public.tool_calls | run_id org_id
public.usage | org_id
public.credit_limits | org_id
public.usage_by_day | org_id
public.queue_limits | org_id
private.departing_organisations | org_id
private.search_orgs | org_id
private.search_due | org_id
private.search_vectors_due | org_id
"""
)

# For each table the columns that no two of its rows may have alike.
UNIQUE = _rows(
    """
public.agent_sessions | number | org_id session_id project subpath uuid
private.agents | name
private.agent_tasks | agent task
public.api_keys | id | hash
public.invitations | id | hash
public.documents | id | id org_id | parent_document_id number_in_parent
public.document_pages | document_id number
public.extraction_journal | id
public.extraction_proposals | id
public.withdrawn_examples | extraction_id name
public.extractions | id | id document_id org_id | id org_id
public.schemas | id | id org_id | org_id
public.schema_versions | id | id org_id | schema_id number
public.prompts | id | id org_id | org_id
public.prompt_versions | id | id org_id | prompt_id number
public.tags | id | id org_id | org_id
public.document_tags | document_id tag_id
public.auto_creations | document_id | run_id
private.files_to_delete | storage_path
public.organisations | id | personal_of
public.memberships | org_id user_id
public.queue_limits | org_id
private.maintenance | task
private.most_waiting | is_only
private.departing_organisations | org_id
public.run_events | run_id number
public.runs | id | id org_id | org_id created_by idempotency_key
public.threads | id | id org_id
public.tool_calls | run_id id
public.usage | run_id message_id
public.usage_by_day | org_id day agent model slot
public.credit_limits | org_id
private.search_orgs | org_id | number
private.search_due | document_id
private.search_pieces | document_id number
private.search_terms | org_number key
private.search_embedder | is_the_one
private.search_vectors | org_number document_id number
private.search_vectors_due | org_id document_id
"""
)


def constraints(connection: psycopg.Connection, kind: str) -> set[str]:
    rows = connection.execute(
        """select conname from pg_constraint where contype = %s and conrelid <> 0 and conparentid = 0
           and connamespace = any ('{public,private}'::regnamespace[])""",
        [kind],
    )
    return {name for (name,) in rows.fetchall()}


def test_every_check_refuses(doors: Doors, house: House) -> None:
    refused: set[str] = set()
    for table, assignments in BAD.items():
        for assignment in assignments:
            with doors.as_owner() as owner:
                owner.execute("set local session_replication_role = replica")  # no trigger comes before
                for row in ROWS:
                    owner.execute(row)
                with pytest.raises(psycopg.errors.CheckViolation) as error:
                    changed = owner.execute(f"update {table} set {assignment}".encode()).rowcount
                    pytest.fail(f"{table}: {assignment} was taken ({changed} rows)")
            refused.add(str(error.value.diag.constraint_name))
    with doors.as_owner() as owner:
        assert constraints(owner, "c") == refused, "each has a row in BAD"


def test_every_key_refuses_what_there_is_not(doors: Doors, house: House) -> None:
    refused: set[str] = set()
    for table, keys in KEYS.items():
        for columns in keys:
            first, *rest = key = columns.split()
            with doors.as_owner() as owner:
                for row in ROWS:
                    owner.execute(row)
                owner.execute(f"alter table {table} disable trigger user".encode())
                # What would be looked at first: its checks, its other keys, and what hangs on its rows.
                others = owner.execute(
                    """select format('alter table %%s drop constraint %%I', conrelid::regclass, conname)
                       from pg_constraint
                       where (contype = 'c' and conrelid = to_regclass(%(table)s))
                         or (contype = 'f' and confrelid = to_regclass(%(table)s) and conrelid <> confrelid)
                         or (contype = 'f' and conrelid = to_regclass(%(table)s) and %(key)s <> array(
                           select attname::text from unnest(conkey) with ordinality as k (number, place)
                           join pg_attribute on attrelid = conrelid and attnum = number order by place))""",
                    {"table": table, "key": list(key)},
                )
                for (statement,) in others.fetchall():
                    owner.execute(statement.encode())
                value = "'nobody'" if first == "agent" else "gen_random_uuid()"
                given = " and ".join(f"{column} is not null" for column in rest) or "true"
                with pytest.raises(psycopg.errors.ForeignKeyViolation) as error:
                    changed = owner.execute(
                        f"update {table} set {first} = {value} where ctid = "
                        f"(select ctid from {table} where {given} limit 1)".encode()
                    ).rowcount
                    owner.execute("set constraints all immediate")
                    pytest.fail(f"{table}: {key} was taken ({changed} rows)")
                refused.add(str(error.value.diag.constraint_name))
    with doors.as_owner() as owner:
        assert constraints(owner, "f") == refused, "each has a row in KEYS"


def test_no_two_rows_are_alike_in_what_tells_them_apart(doors: Doors, house: House) -> None:
    refused: set[str] = set()
    for table, keys in UNIQUE.items():
        for key in map(str.split, keys):
            with doors.as_owner() as owner:
                owner.execute("set local session_replication_role = replica")  # no trigger and no key comes before
                for row in ROWS:
                    owner.execute(row)
                # Neither does another of the table's.
                others = owner.execute(
                    """select case when c.oid is null then format('drop index %%s', i.indexrelid::regclass) else
                         format('alter table %%s drop constraint %%I cascade', i.indrelid::regclass, c.conname) end
                       from pg_index as i
                       left join pg_constraint as c on c.conindid = i.indexrelid and c.contype in ('p', 'u')
                       where i.indrelid = %s::regclass and i.indisunique and %s::text[] <> array(
                         select a.attname::text from unnest(i.indkey) with ordinality as k (n, place)
                         join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.n order by place)""",
                    [table, list(key)],
                )
                for (statement,) in others.fetchall():
                    owner.execute(statement.encode())
                columns = owner.execute(
                    """select string_agg(quote_ident(attname), ', ') from pg_attribute
                       where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''""",
                    [table],
                ).fetchone()
                assert columns is not None
                given = " and ".join(f"{column} is not null" for column in key)
                with pytest.raises(psycopg.errors.UniqueViolation) as error:
                    copied = owner.execute(
                        f"insert into {table} ({columns[0]}) overriding system value "
                        f"select {columns[0]} from {table} where {given} limit 1".encode()
                    ).rowcount
                    pytest.fail(f"{table}: two rows with the same {key} were taken ({copied} rows)")
                refused.add(str(error.value.diag.constraint_name))
    with doors.as_owner() as owner:
        unique = owner.execute(
            """select relname from pg_index join pg_class on oid = indexrelid
               where indisunique and relnamespace = any ('{public,private}'::regnamespace[])"""
        )
        assert {name for (name,) in unique.fetchall()} == refused, "each has a row in UNIQUE"
