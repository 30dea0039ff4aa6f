"""Schema changes and their extractions: preview, application, skipped extractions, permissions."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from extraction_case import ExtractionCase, document_with_pages, sql, until
from fieldmark.domain import paths
from fieldmark.errors import Deleted, Invalid, InvalidSchema, NotFound, QueueFull
from fieldmark.identity.scope import Scope
from fieldmark.services import schema_changes
from fieldmark.stores import extractions, runs
from fieldmark.stores.library import schemas
from fieldmark.stores.schema_changes import follow

pytestmark = pytest.mark.anyio

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
OLD = {"type": "object", "properties": {"number": TEXT, "total": NUMBER}}
WITH_DUE_DATE = {"type": "object", "properties": {"number": TEXT, "total": NUMBER, "due": TEXT}}
CLOSED = {"type": "object", "properties": {"total": TEXT}, "additionalProperties": False}


@dataclass
class SchemaWithExtractions:
    """A schema and the extractions that follow its versions."""

    case: ExtractionCase
    schema_id: UUID
    revid: UUID
    started_runs: list[tuple[UUID, list[str] | None]] = field(default_factory=list)
    is_queue_full: bool = False

    async def extraction(self, fields: dict, *, completed: bool = False, locked: dict | None = None) -> UUID:
        async with self.case.database.as_user(self.case.scope) as conn:
            added = await extractions.add(
                conn, org_id=self.case.scope.org_id, document_id=self.case.document_id, schema_revid=self.revid
            )
        self.case.sql("select public.save_extraction_fields(%s, %s)", added, Jsonb(fields))
        async with self.case.database.as_user(self.case.scope) as conn:
            for name, value in (locked or {}).items():
                await extractions.update_field(conn, added, paths.parse(name), value, {}, {})
            if completed:
                await extractions.complete(conn, added)
        return added

    async def version(self, schema: dict) -> UUID:
        async with self.case.database.as_user(self.case.scope) as conn:
            return (await schemas.update(conn, self.schema_id, schema=schema)).schema_revid

    async def preview(self, scope: Scope | None = None, **given):
        return await schema_changes.preview(self.case.database, scope or self.case.scope, self.schema_id, **given)

    async def apply(self, scope: Scope | None = None, **given):
        given = {"limit": 200, **given}
        whose = scope or self.case.scope
        return await schema_changes.apply(self.case.database, whose, self.schema_id, self._begin, **given)

    async def _begin(self, conn, row, fields):
        if self.is_queue_full:
            raise QueueFull("The queue is full.")
        self.started_runs.append((row.id, fields))
        return uuid4()

    def row(self, extraction_id: UUID) -> dict:
        return sql(self.case.owner_url, "select * from public.extractions where id = %s", extraction_id)[0]


@pytest.fixture
async def followed_schema(case):
    async with case.database.as_user(case.scope) as conn:
        row = await schemas.create(conn, case.scope.org_id, "Invoices", OLD)
    return SchemaWithExtractions(case, row.id, row.schema_revid)


async def test_preview_counts_by_version_and_changes_nothing(followed_schema):
    first = await followed_schema.extraction({"number": "1", "total": 3})
    second = await followed_schema.extraction({"number": "2"}, locked={"total": 4})
    before = followed_schema.row(first), followed_schema.row(second)
    await followed_schema.version(CLOSED)
    found = await followed_schema.preview()
    (version,) = found.versions
    assert (version.schema_revid, version.number, version.extractions) == (followed_schema.revid, 1, 2)
    assert (version.added, version.removed, version.changed) == ([], ["number"], ["total"])
    assert (found.extractions, found.read_again, found.estimated_cost_usd) == (2, 2, None)
    assert (followed_schema.row(first), followed_schema.row(second)) == before


async def test_estimated_cost_is_based_on_earlier_runs(followed_schema):
    one = await followed_schema.extraction({"number": "1", "total": 3})
    await followed_schema.extraction({"number": "2", "total": 3})
    run_id = await add_run(followed_schema, one)
    followed_schema.case.sql("update public.runs set status = 'completed' where id = %s", run_id)
    _add_usage(followed_schema, run_id, 0.25)
    await followed_schema.version(WITH_DUE_DATE)
    assert (await followed_schema.preview()).estimated_cost_usd == 0.5
    assert (await followed_schema.preview(schema={**OLD, "title": "T"})).estimated_cost_usd == 0


async def test_estimated_cost_includes_the_second_reading_of_new_runs(followed_schema):
    one = await followed_schema.extraction({"number": "1", "total": 3})
    followed_schema.case.sql("update public.organisations set second_reading = 'all'")
    read_once, read_twice = await add_run(followed_schema, one), await add_run(followed_schema, one)
    followed_schema.case.sql("update public.runs set input = '{}' where id = %s", read_once)
    followed_schema.case.sql("update public.runs set status = 'completed' where id = %s", read_once)
    _add_usage(followed_schema, read_once, 0.25)
    await followed_schema.version(WITH_DUE_DATE)
    assert (await followed_schema.preview()).estimated_cost_usd == 0.5  # none is known: as much as the first
    followed_schema.case.sql("update public.runs set status = 'completed' where id = %s", read_twice)
    _add_usage(followed_schema, read_twice, 0.3)
    assert (await followed_schema.preview()).estimated_cost_usd == 0.3
    followed_schema.case.sql("update public.organisations set second_reading = 'off'")
    await followed_schema.version({**WITH_DUE_DATE, "x-fieldmark": {"second_reading": "all"}})
    assert (await followed_schema.preview()).estimated_cost_usd == 0.3


def _add_usage(at: SchemaWithExtractions, run_id: UUID, cost: float) -> None:
    at.case.sql(
        """insert into public.usage (org_id, run_id, root_run_id, agent, message_id, model, input_tokens, output_tokens,
             cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_usd)
           values (%s, %s, %s, 'extraction', gen_random_uuid(), 'x', 1, 1, 0, 0, 0, %s)""",
        *(at.case.scope.org_id, run_id, run_id, cost),
    )


async def test_draft_schema_is_compared_with_the_latest_and_the_followed_versions(followed_schema):
    await followed_schema.extraction({"number": "1"})
    await followed_schema.version(WITH_DUE_DATE)
    found = await followed_schema.preview(schema={**WITH_DUE_DATE, "required": ["due"]})
    assert [(one.number, one.extractions, one.added, one.changed) for one in found.versions] == [
        (2, 0, [], ["due"]),
        (1, 1, ["due"], []),
    ]
    with pytest.raises(InvalidSchema):
        await followed_schema.preview(schema={"type": "array"})
    with pytest.raises(Invalid):
        await followed_schema.preview(schema=WITH_DUE_DATE, revid=followed_schema.revid)


async def test_extraction_without_changed_fields_follows_at_once(followed_schema):
    one = await followed_schema.extraction({"number": "1", "total": 3}, completed=True)
    started_runs = await followed_schema.extraction({"number": "1", "total": 3})
    revid = await followed_schema.version({**OLD, "title": "Invoices"})
    done = await followed_schema.apply()
    assert (done.followed, done.runs, done.skipped, done.next) == (2, [], [], None)
    row = followed_schema.row(one)
    assert row["schema_revid"] == revid and row["schema"]["title"] == "Invoices"
    # A completed extraction stays completed if it is valid under the new version.
    assert row["status"] == "completed" and followed_schema.row(started_runs)["status"] == "in_progress"
    assert row["version"] == 1
    # Applying again changes nothing.
    assert (await followed_schema.apply()).followed == 0
    await followed_schema.version({**OLD, "x-fieldmark": {"rules": [{"equals": ["number", "total"]}]}})
    assert (await followed_schema.apply()).followed == 2
    assert followed_schema.row(one)["status"] == "in_progress" and followed_schema.started_runs == []


async def test_values_stay_and_locks_stay(followed_schema):
    one = await followed_schema.extraction({"number": "1"}, locked={"total": 4}, completed=True)
    revid = await followed_schema.version(CLOSED)
    assert (await followed_schema.apply()).followed == 1
    row = followed_schema.row(one)
    assert row["extracted_fields"] == {"number": "1", "total": 4} and "total" in row["locks"]
    assert (row["schema_revid"], row["status"], row["version"]) == (revid, "in_progress", 2)
    assert len(followed_schema.started_runs) == 1 and followed_schema.started_runs == [(one, ["total"])]
    # With too many changed fields the whole extraction is repeated.
    await followed_schema.version({"type": "object", "properties": {f"k{n}": TEXT for n in range(101)}})
    await followed_schema.apply()
    assert followed_schema.started_runs[1:] == [(one, None)]


async def test_extraction_with_an_open_run_is_skipped(followed_schema):
    one = await followed_schema.extraction({"number": "1", "total": 3})
    await followed_schema.version(WITH_DUE_DATE)
    run_id = await add_run(followed_schema, one)
    for status in ("queued", "running", "awaiting_approval", "awaiting_runs"):
        followed_schema.case.sql("update public.runs set status = %s, waiting_call = 'c' where id = %s", status, run_id)
        done = await followed_schema.apply()
        assert (done.followed, skipped_reasons(done)) == (0, [(one, "at_work")])
    followed_schema.case.sql("update public.runs set status = 'cancelled' where id = %s", run_id)
    assert (await followed_schema.apply()).followed == 1


def skipped_reasons(done) -> list[tuple[UUID, str]]:
    return [(one.extraction_id, one.why) for one in done.skipped]


async def add_run(followed_schema, extraction_id, scope=None):
    scope = scope or followed_schema.case.scope
    async with followed_schema.case.database.as_user(scope) as conn:
        return await runs.add(
            conn,
            scope,
            id=uuid4(),
            agent="extraction",
            task="extract",
            task_input={},
            subject=runs.Subject(followed_schema.case.document_id, extraction_id),
        )


async def test_extraction_with_a_run_in_a_private_thread_is_skipped(followed_schema, make_user):
    one = await followed_schema.extraction({"number": "1", "total": 3})
    await followed_schema.version(WITH_DUE_DATE)
    run_id = await add_run(followed_schema, one)
    other = await add_member(followed_schema, "member", make_user)
    thread = followed_schema.case.sql(
        "insert into public.threads (org_id, created_by, agent) values (%s, %s, 'document') returning id",
        followed_schema.case.scope.org_id,
        followed_schema.case.scope.user_id,
    )[0]["id"]
    followed_schema.case.sql("update public.runs set root_thread_id = %s where id = %s", thread, run_id)
    async with followed_schema.case.database.as_user(other) as conn:
        assert await runs.find(conn, run_id) is None
    assert skipped_reasons(await followed_schema.apply(other)) == [(one, "at_work")]
    # A viewer may preview but not apply.
    viewer = await add_member(followed_schema, "viewer", make_user)
    assert (await followed_schema.preview(viewer)).extractions == 1
    assert skipped_reasons(await followed_schema.apply(viewer)) == [(one, "not_found")]


async def add_member(followed_schema, role, make_user):
    user_id, org_id = (await make_user()).user_id, followed_schema.case.scope.org_id
    followed_schema.case.sql(
        "insert into public.memberships (org_id, user_id, role) values (%s, %s, %s)", org_id, user_id, role
    )
    return Scope(user_id, org_id)


COUNT_WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@asynccontextmanager
async def transaction_during_apply(followed_schema):
    """Yield a connection and a list that receives the apply task. On exit, start the apply, wait until a lock blocks
    it, and commit the connection."""
    async with followed_schema.case.database.as_user(followed_schema.case.scope) as conn:
        done: list[asyncio.Task] = []
        yield conn, done
        done.append(asyncio.create_task(followed_schema.apply()))
        await until(lambda: followed_schema.case.sql(COUNT_WAITING)[0]["count"] == 1)


async def test_extraction_changed_concurrently_is_skipped(followed_schema):
    one = await followed_schema.extraction({"number": "1", "total": 3})
    revid = await followed_schema.version(WITH_DUE_DATE)
    async with transaction_during_apply(followed_schema) as (conn, done):
        await extractions.lock(conn, one)
        await follow(conn, one, revid)
    assert skipped_reasons(await done[0]) == [(one, "follows_already")] and followed_schema.started_runs == []


async def test_full_queue_stops_with_a_cursor(followed_schema):
    ids = [await followed_schema.extraction({"number": str(n), "total": 3}) for n in range(3)]
    await followed_schema.version(WITH_DUE_DATE)

    async def full_after_one(conn, row, fields):
        if followed_schema.started_runs:
            raise QueueFull("The queue is full.")
        return await SchemaWithExtractions._begin(followed_schema, conn, row, fields)

    done = await schema_changes.apply(
        followed_schema.case.database, followed_schema.case.scope, followed_schema.schema_id, full_after_one, limit=200
    )
    assert (done.followed, done.stopped) == (1, "queue_full") and done.next is not None
    # An extraction whose run did not start keeps its version.
    assert [followed_schema.row(one)["schema_revid"] == followed_schema.revid for one in ids] == [True, True, False]
    followed_schema.is_queue_full = True
    with pytest.raises(QueueFull):
        await followed_schema.apply(before=done.next)
    followed_schema.is_queue_full = False
    done = await followed_schema.apply(before=done.next)
    assert (done.followed, done.next, done.stopped) == (2, None, None)
    assert [one for one, _ in followed_schema.started_runs] == ids[::-1]


async def test_selected_extractions_are_changed(followed_schema):
    ids = [await followed_schema.extraction({"number": str(n), "total": 3}) for n in range(3)]
    revid = await followed_schema.version({**OLD, "title": "T"})
    unknown_id = uuid4()
    done = await followed_schema.apply(extraction_ids=[ids[1], unknown_id])
    assert (done.followed, skipped_reasons(done)) == (1, [(unknown_id, "not_found")])
    assert [followed_schema.row(one)["schema_revid"] == revid for one in ids] == [False, True, False]
    done = await followed_schema.apply(extraction_ids=[ids[1]])
    assert (done.followed, skipped_reasons(done)) == (0, [(ids[1], "follows_already")])
    # Back to an older version, then all in pages.
    assert (await followed_schema.apply(extraction_ids=[ids[1]], revid=followed_schema.revid)).followed == 1
    first = await followed_schema.apply(limit=2)
    second = await followed_schema.apply(limit=2, before=first.next)
    assert [(one.followed, one.next is None) for one in (first, second)] == [(2, False), (1, True)]


async def test_other_organisations_schemas_and_extractions_are_not_found(followed_schema, make_user):
    one = await followed_schema.extraction({"number": "1"})
    await followed_schema.version(WITH_DUE_DATE)
    stranger = await make_user()
    for operation in (followed_schema.preview, followed_schema.apply):
        with pytest.raises(NotFound):
            await operation(stranger)
    # An extraction of another organisation is not found through one's own schema.
    async with AsyncExitStack() as stack:
        foreign_case = await stack.enter_async_context(
            document_with_pages(followed_schema.case.database, followed_schema.case.owner_url, stranger, ["Total: 1"])
        )
        foreign_schema = await add_schema(foreign_case)
        done = await foreign_schema.apply(extraction_ids=[one])
        assert (done.followed, skipped_reasons(done)) == (0, [(one, "not_found")])
        for operation in (foreign_schema.preview, foreign_schema.apply):
            with pytest.raises(NotFound):
                await operation(revid=followed_schema.revid)
    # Versions of another schema, invalid versions and deleted schemas are refused.
    other_schema = await add_schema(followed_schema.case)
    unusable = await followed_schema.version({"type": "object", "properties": {"w": {"$ref": "#/$defs/none"}}})
    for operation in (followed_schema.preview, followed_schema.apply):
        with pytest.raises(NotFound):
            await operation(revid=other_schema.revid)
        with pytest.raises(InvalidSchema):
            await operation(revid=unusable)
    async with followed_schema.case.database.as_user(followed_schema.case.scope) as conn:
        await schemas.remove(conn, followed_schema.schema_id)
    for operation in (followed_schema.preview, followed_schema.apply):
        with pytest.raises(Deleted):
            await operation()
    assert followed_schema.row(one)["schema_revid"] == followed_schema.revid


async def add_schema(case):
    async with case.database.as_user(case.scope) as conn:
        row = await schemas.create(conn, case.scope.org_id, "Others", OLD)
    return SchemaWithExtractions(case, row.id, row.schema_revid)
