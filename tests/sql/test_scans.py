"""Store queries scan no tenant table, later pages cost the same, and foreign keys have indexes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.columns import list_columns
from fieldmark.domain.statuses import DocumentStage
from fieldmark.identity.scope import Scope
from fieldmark.stores import auto_creations, documents, extractions, runs, tables, tool_calls
from fieldmark.stores.documents import DocumentListFilter
from fieldmark.stores.extractions import ExtractionFilter
from fieldmark.stores.library import prompts, schemas, tags
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import Position
from fieldmark.stores.runs import Subject
from fieldmark.stores.tables import RowKey, Table

pytestmark = pytest.mark.anyio

ORGANISATIONS = 25
ROWS_EACH = 240
"""Rows of an organisation in each table: enough that no plan reads the whole of one that it need not."""

_ROWS = f"""
set session_replication_role = replica;
create temporary table one as
  select o.id as org_id, m.user_id, n, private.new_id() as document_id, private.new_id() as extraction_id,
    private.new_id() as run_id, private.new_id() as thread_id, private.new_id() as schema_id,
    private.new_id() as prompt_id, private.new_id() as tag_id, private.new_id() as revid,
    now() - n * interval '1 minute' as at
  from organisations as o join memberships as m on m.org_id = o.id cross join generate_series(1, {ROWS_EACH}) as n;
insert into documents (id, org_id, created_by, created_at, filename, storage_path, media_type, byte_size, status,
    page_count)
  select document_id, org_id, user_id, at, 'a.txt', concat_ws('/', org_id, document_id, 'a.txt'), 'text/plain', 1,
    'ready', 1 from one;
insert into document_pages (document_id, org_id, number, width, height, text, words, engine)
  select document_id, org_id, 1, 1, 1, 'Total', '[["Total", 0, 0, 1, 1]]', 'text' from one;
insert into schemas (id, org_id, created_by, created_at, name, run_id)
  select schema_id, org_id, user_id, at, 'Schema ' || n, run_id from one;
insert into schema_versions (id, org_id, schema_id, number, name, schema, run_id)
  select revid, org_id, schema_id, 1, 'Schema ' || n, '{{}}', run_id from one;
insert into prompts (id, org_id, created_by, created_at, name, run_id)
  select prompt_id, org_id, user_id, at, 'Prompt ' || n, run_id from one;
insert into prompt_versions (id, org_id, prompt_id, number, name, content, schema_id, run_id)
  select revid, org_id, prompt_id, 1, 'Prompt ' || n, 'Read.', schema_id, run_id from one;
insert into tags (id, org_id, created_by, created_at, name) select tag_id, org_id, user_id, at, 'Tag ' || n from one;
insert into document_tags (org_id, document_id, tag_id, document_created_at)
  select a.org_id, a.document_id, b.tag_id, a.at
  from one as a join one as b on b.org_id = a.org_id and b.n in (a.n, 40);
insert into extractions (id, org_id, document_id, created_by, created_at, extracted_fields, status, locks, schema,
    schema_revid, prompt_revid)
  select extraction_id, org_id, document_id, user_id, at, '{{"a": 1}}',
    case when n % 2 = 0 then 'completed' else 'in_progress' end,
    (case when n % 40 = 0 then '{{"a": {{}}}}' else '{{}}' end)::jsonb, '{{}}', revid, revid from one;
insert into extraction_journal (org_id, extraction_id, version, path, steps, new, actor)
  select org_id, extraction_id, 1, '{{a}}', 'k', '1', 'agent' from one;
insert into fields (org_id, document_id, extraction_id, path, pattern, indexes, kind, text, number, is_verified,
    status)
  select org_id, document_id, extraction_id, 'a', 'a', '{{}}', 'number', '1', 1, true,
    case when n % 20 = 0 then 'unclear' else 'found' end from one;
insert into extraction_proposals (org_id, extraction_id, path, name, old, new, confidence_scores, evidence)
  select org_id, extraction_id, '{{a}}', 'a', '1', '2', '{{}}', '{{}}' from one where n % 10 = 0;
insert into threads (id, org_id, created_by, agent) select thread_id, org_id, user_id, 'extraction' from one;
insert into runs (id, org_id, created_by, created_at, agent, task, document_id, extraction_id, root_run_id, lock_key,
    approval, waiting_call, status)
  select run_id, org_id, user_id, at, 'extraction', 'extract', document_id, extraction_id, run_id,
    org_id || '/extraction/' || extraction_id, 'auto', 'call',
    case when n % 60 = 0 then 'awaiting_approval' else 'completed' end from one;
insert into run_events (run_id, number, org_id, body)
  select run_id, number, org_id, '{{}}' from one cross join generate_series(1, 3) as number;
insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status)
  select run_id, 'call', org_id, 'a', '{{}}', repeat('0', 64), 'pending' from one;
insert into usage (run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens,
    cache_write_1h_tokens, cache_read_tokens, cost_usd, root_run_id, created_by)
  select run_id, 'm', org_id, 'a', 'm', 1, 1, 1, 1, 1, 1, run_id, user_id from one;
insert into auto_creations (document_id, org_id, created_at, run_id, status, kind, labels, schema_revid, prompt_revid)
  select document_id, org_id, at, run_id, 'proposed', 'invoice', '{{a,b,c,d}}', revid, revid from one;
set session_replication_role = origin;
analyze;
"""

LARGE = set(re.findall(r"^insert into (\w+)", _ROWS, re.MULTILINE))


class LargeDatabase:
    """A database with many organisations, and the ids of one of them."""

    def __init__(self, database: Database, scope: Scope, ids: dict[str, UUID], last: datetime) -> None:
        self.database, self.scope, self.last = database, scope, last
        self.document, self.extraction = ids["document_id"], ids["extraction_id"]
        self.run, self.thread = ids["run_id"], ids["thread_id"]
        self.schema, self.prompt, self.tag = ids["schema_id"], ids["prompt_id"], ids["tag_id"]
        self.revid = ids["revid"]


@pytest.fixture
async def large(database: Database, clone: Any, make_user: Callable[[], Awaitable[Scope]]) -> LargeDatabase:
    users = [await make_user() for _ in range(ORGANISATIONS)]
    scope = users[ORGANISATIONS // 2]
    with psycopg.connect(clone.owner_url, autocommit=True) as owner:
        owner.execute(_ROWS.encode())
        row = owner.execute(
            """select document_id, extraction_id, run_id, thread_id, schema_id, prompt_id, tag_id, revid, at
               from one where org_id = %s and n = 40""",
            [scope.org_id],
        ).fetchone()
    assert row is not None
    names = ("document_id", "extraction_id", "run_id", "thread_id", "schema_id", "prompt_id", "tag_id", "revid")
    return LargeDatabase(database, scope, dict(zip(names, row[:8], strict=True)), row[8])


_SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}}
Statement = Callable[[Connection, LargeDatabase], Awaitable[Any]]

STATEMENTS: dict[str, Statement] = {
    "documents.list": lambda c, f: documents.list_documents(c, f.scope.org_id, limit=20),
    "documents.list of a tag": lambda c, f: documents.list_documents(
        c, f.scope.org_id, limit=20, filters=DocumentListFilter(tag_id=f.tag)
    ),
    "documents.unread_pages": lambda c, f: documents.unread_pages(c, f.run),
    "documents.remove": lambda c, f: documents.remove(c, f.document),
    **{
        f"documents.{name} of stage {stage}": lambda c, f, query=query, stage=stage: query(c, f.scope.org_id, stage)
        for stage in DocumentStage
        for name, query in (
            ("count", lambda c, o, s: documents.count_documents(c, o, DocumentListFilter(stage=s))),
            ("list", lambda c, o, s: documents.list_documents(c, o, limit=20, filters=DocumentListFilter(stage=s))),
        )
    },
    "extractions.list": lambda c, f: extractions.list_extractions(c, f.scope.org_id, limit=20),
    "extractions.list of a document": lambda c, f: extractions.list_extractions(
        c, f.scope.org_id, limit=20, filters=ExtractionFilter(f.document)
    ),
    "extractions.list of a schema": lambda c, f: extractions.list_extractions(
        c, f.scope.org_id, limit=20, filters=ExtractionFilter(schema_id=f.schema)
    ),
    "extractions.list of a prompt": lambda c, f: extractions.list_extractions(
        c, f.scope.org_id, limit=20, filters=ExtractionFilter(prompt_id=f.prompt)
    ),
    "tables.load_rows": lambda c, f: tables.load_rows(
        c,
        Table("T", None, {column.path: column for column in list_columns(_SCHEMA, None)}),
        [RowKey(f.document, f.extraction, ())],
    ),
    "schemas.by_name": lambda c, f: schemas.by_name(c, f.scope.org_id, "SCHEMA 40"),
    "schemas.list": lambda c, f: schemas.list_page(c, f.scope, limit=20),
    "schemas.remove": lambda c, f: schemas.remove(c, f.schema),
    "prompts.list of a schema and a tag": lambda c, f: prompts.list_page(
        c, f.scope, name="40", schema_id=f.schema, tag_id=f.tag, limit=20
    ),
    "prompts.remove": lambda c, f: prompts.remove(c, f.prompt),
    "tags.remove": lambda c, f: tags.remove(c, f.tag),
    "tags.by_document": lambda c, f: tags.by_document(c, [f.document]),
    "extractions.history of a path": lambda c, f: extractions.history(
        c, f.extraction, path=paths.parse("a"), limit=20, before=99
    ),
    "extractions.list_corrected": lambda c, f: extractions.list_corrected(c, f.scope.org_id, 5),
    "extractions.remove": lambda c, f: extractions.remove(c, f.extraction),
    "auto_creations.find_by_run": lambda c, f: auto_creations.find_by_run(c, f.run),
    "auto_creations.most_similar": lambda c, f: most_similar_creation(c, f),
    "auto_creations.decide": lambda c, f: auto_creations.decide(c, f.document, accepted=False),
    "runs.children": lambda c, f: runs.children(c, f.run, "call"),
    "runs.list": lambda c, f: runs.list_runs(c, f.scope, status=None, limit=20),
    "runs.list of a status": lambda c, f: runs.list_runs(c, f.scope, status="awaiting_approval", limit=20),
    "runs.claim": lambda c, f: runs.claim(c, f.run),
    "runs.cancel_waiting": lambda c, f: runs.cancel_waiting(c, Subject(f.document, f.extraction), "No."),
    "runs.supersede in a thread": lambda c, f: runs.cancel_waiting(c, Subject(thread_id=f.thread), "No."),
    "runs.cancel": lambda c, f: runs.cancel(c, f.run, "No."),
    "tool_calls.waiting_calls": lambda c, f: tool_calls.waiting_calls(c, [f.run]),
    "tool_calls.list_ended_decided_calls": lambda c, f: tool_calls.list_ended_decided_calls(c, f.run),
}


async def most_similar_creation(conn: Connection, large: LargeDatabase) -> None:
    assert await auto_creations.most_similar(conn, large.scope.org_id, uuid4(), "invoice", ["a", "b", "c", "d"])


async def scanned_tables(large: LargeDatabase, statement: Statement) -> set[str]:
    """Return the tables that a statement scans: in its first execution and, prepared, in its sixth."""
    scans = "select relname, seq_scan from pg_stat_xact_user_tables"
    async with large.database.as_user(large.scope) as conn:
        # Includes statistics not yet flushed by earlier transactions of the connection.
        before = {row["relname"]: row["seq_scan"] async for row in await conn.execute(scans)}
        for _ in range(7):
            async with conn.transaction(force_rollback=True):
                await statement(conn, large)
        after = {row["relname"]: row["seq_scan"] async for row in await conn.execute(scans)}
    return {table for table, count in after.items() if count > before.get(table, 0)}


async def test_no_statement_scans_a_tenant_table(large: LargeDatabase) -> None:
    assert {
        name: tables for name, one in STATEMENTS.items() if (tables := await scanned_tables(large, one) & LARGE)
    } == {}
    all_statements: Statement = lambda c, f: c.execute("select count(*) from public.runs where answer = 'x'")  # noqa: E731
    assert await scanned_tables(large, all_statements) & LARGE == {"runs"}


async def test_later_list_pages_cost_the_same_as_the_first(large: LargeDatabase) -> None:
    async with large.database.as_user(large.scope) as conn:
        position = Position(large.last - timedelta(minutes=150), large.run)
        tagged = DocumentListFilter(tag_id=large.tag)

        async def rows_read(query: Awaitable[Any]) -> int:
            count = "select coalesce(sum(idx_tup_fetch + seq_tup_read), 0) as n from pg_stat_xact_user_tables"
            before = (await (await conn.execute(count)).fetchone() or {})["n"]
            found = await query
            assert len(getattr(found, "items", found)) == 5
            return (await (await conn.execute(count)).fetchone() or {})["n"] - before

        org = large.scope.org_id
        lists: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "documents": lambda at: documents.list_documents(conn, org, limit=5, before=at("documents")),
            "documents of a tag": lambda at: documents.list_documents(
                conn, org, limit=5, before=at("documents"), filters=tagged
            ),
            "schemas": lambda at: schemas.list_page(conn, large.scope, limit=5, before=at("schemas")),
            "extractions": lambda at: extractions.list_extractions(conn, org, limit=5, before=at("extractions")),
            "runs": lambda at: runs.list_runs(conn, large.scope, status=None, limit=5, before=at("runs")),
        }
        for name, page in lists.items():
            first, later = (
                await rows_read(page(lambda _: None)),
                await rows_read(page(lambda kind: str(Cursor(kind, position)))),
            )
            assert (name, max(0, later - first - 50)) == (name, 0)


def test_counting_required_fields_reads_few_rows(clone: Any) -> None:
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute(
            """set session_replication_role = replica;
               create temporary table one as select n, private.new_id() as id from generate_series(1, 8000) as n;
               insert into schemas (id, org_id, name, required_fields)
                 values (md5('s')::uuid, md5('o')::uuid, 'S', '{a}');
               insert into schema_versions (id, org_id, schema_id, number, name, schema)
                 select md5(n::text)::uuid, md5('o')::uuid, md5('s')::uuid, n, 'S', '{"properties": {"a": {}}}'
                 from generate_series(1, 2) as n;
               insert into extractions (id, org_id, document_id, created_at, status, schema, schema_revid)
                 select id, md5('o')::uuid, id, now() - n * interval '1 minute', 'completed', '{}',
                   md5((n % 2 + 1)::text)::uuid from one;
               insert into fields (org_id, document_id, extraction_id, path, pattern, indexes, kind, text, is_verified,
                   status)
                 select md5('o')::uuid, id, id, pattern, pattern, indexes, 'text', 'x', true, 'found' from one
                 cross join (values ('a', '{}'::integer[]), ('l[]', '{1}'), ('l[]', '{2}')) as f (pattern, indexes);
               analyze"""
        )
        count = """select coalesce(sum(idx_tup_fetch + seq_tup_read), 0) from pg_stat_xact_user_tables
                   where relname in ('extractions', 'fields')"""
        (before,) = owner.execute(count).fetchone() or (0,)
        owner.execute("select private.update_required_fields(md5('s')::uuid)")
        (after,) = owner.execute(count).fetchone() or (0,)
        # The newest 1,000 of each version, and the field `a` of 1,000.
        assert after - before <= 3_100


def test_embedding_lease_reads_few_rows(clone: Any) -> None:
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute(
            """set session_replication_role = replica;
               insert into private.embedding_queue (org_id, document_id, tries)
               select md5(org::text)::uuid, gen_random_uuid(), case org when 1 then 3 else 0 end
               from generate_series(1, 3) as org cross join generate_series(1, 1000);
               analyze private.embedding_queue"""
        )
        count = """select coalesce(sum(idx_tup_fetch + seq_tup_read), 0) from pg_stat_xact_user_tables
                   where relname = 'embedding_queue'"""
        (before,) = owner.execute(count).fetchone() or (0,)
        leased = [
            owner.execute("select org_id, document_id from private.lease_document_for_embedding(60)").fetchone()
            for _ in range(9)
        ]
        assert len(set(leased)) == 9
        (after,) = owner.execute(count).fetchone() or (0,)
        assert after - before < 400


def test_every_foreign_key_of_a_tenant_table_has_an_index(clone: Any) -> None:
    with psycopg.connect(clone.owner_url) as owner:
        rows = owner.execute(
            """select c.conrelid::regclass::text, c.conname from pg_constraint as c
               where c.contype = 'f' and c.connamespace::regnamespace::text in ('public', 'private')
                 and c.confrelid not in ('private.agents'::regclass, 'private.agent_tasks'::regclass)
                 and not exists (
                   select from pg_index as i
                   where i.indrelid = c.conrelid and i.indisvalid and i.indpred is null
                     and i.indkey[0] = any (c.conkey))"""
        ).fetchall()
    assert rows == []
