"""What a change of a schema does to extractions, on a real Postgres: previewed, applied, skipped, and who may."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from extraction_case import ExtractionCase, document_with_pages, sql, until
from fieldmark.domain import paths
from fieldmark.errors import Invalid, InvalidSchema, NotFound, QueueFull
from fieldmark.identity.scope import Scope
from fieldmark.services import schema_changes
from fieldmark.stores import extractions, runs
from fieldmark.stores.library import schemas
from fieldmark.stores.schema_changes import follow

pytestmark = pytest.mark.anyio

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
OLD = {"type": "object", "properties": {"number": TEXT, "total": NUMBER}}
MORE = {"type": "object", "properties": {"number": TEXT, "total": NUMBER, "due": TEXT}}
CLOSED = {"type": "object", "properties": {"total": TEXT}, "additionalProperties": False}


@dataclass
class Shelf:
    """A schema of a user, and extractions that follow its versions."""

    case: ExtractionCase
    schema_id: UUID
    revid: UUID
    begun: list[tuple[UUID, list[str] | None]] = field(default_factory=list)
    full: bool = False

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
        if self.full:
            raise QueueFull("Too many wait.")
        self.begun.append((row.id, fields))
        return uuid4()

    def row(self, extraction_id: UUID) -> dict:
        return sql(self.case.owner_url, "select * from public.extractions where id = %s", extraction_id)[0]


@pytest.fixture
async def shelf(case):
    async with case.database.as_user(case.scope) as conn:
        row = await schemas.create(conn, case.scope.org_id, "Invoices", OLD)
    return Shelf(case, row.id, row.schema_revid)


async def test_a_preview_counts_by_version_and_changes_nothing(shelf):
    first = await shelf.extraction({"number": "1", "total": 3})
    second = await shelf.extraction({"number": "2"}, locked={"total": 4})
    before = shelf.row(first), shelf.row(second)
    await shelf.version(CLOSED)
    found = await shelf.preview()
    (version,) = found.versions
    assert (version.schema_revid, version.number, version.extractions) == (shelf.revid, 1, 2)
    assert (version.added, version.removed, version.changed) == ([], ["number"], ["total"])
    assert (found.extractions, found.read_again, found.estimated_cost_usd) == (2, 2, None)
    assert (shelf.row(first), shelf.row(second)) == before


async def test_the_cost_of_reading_again_is_that_of_the_runs_before(shelf):
    one = await shelf.extraction({"number": "1", "total": 3})
    await shelf.extraction({"number": "2", "total": 3})
    run_id = await at_work(shelf, one)
    shelf.case.sql("update public.runs set status = 'completed' where id = %s", run_id)
    shelf.case.sql(
        """insert into public.usage (org_id, run_id, root_run_id, agent, message_id, model, input_tokens, output_tokens,
             cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_usd)
           values (%s, %s, %s, 'extraction', 'm', 'x', 1, 1, 0, 0, 0, 0.25)""",
        *(shelf.case.scope.org_id, run_id, run_id),
    )
    await shelf.version(MORE)
    assert (await shelf.preview()).estimated_cost_usd == 0.5
    assert (await shelf.preview(schema={**OLD, "title": "T"})).estimated_cost_usd == 0


async def test_a_schema_that_is_not_stored_is_compared_with_the_latest_and_the_followed_versions(shelf):
    await shelf.extraction({"number": "1"})
    await shelf.version(MORE)
    found = await shelf.preview(schema={**MORE, "required": ["due"]})
    assert [(one.number, one.extractions, one.added, one.changed) for one in found.versions] == [
        (2, 0, [], ["due"]),
        (1, 1, ["due"], []),
    ]
    with pytest.raises(InvalidSchema):
        await shelf.preview(schema={"type": "array"})
    with pytest.raises(Invalid):
        await shelf.preview(schema=MORE, revid=shelf.revid)


async def test_where_no_field_changed_it_follows_at_once(shelf):
    one = await shelf.extraction({"number": "1", "total": 3}, completed=True)
    begun = await shelf.extraction({"number": "1", "total": 3})
    revid = await shelf.version({**OLD, "title": "Invoices"})
    done = await shelf.apply()
    assert (done.followed, done.runs, done.skipped, done.next) == (2, [], [], None)
    row = shelf.row(one)
    assert row["schema_revid"] == revid and row["schema"]["title"] == "Invoices"
    # What was complete is so by the new version too; what was not, or breaks a rule of it, is not.
    assert row["status"] == "completed" and shelf.row(begun)["status"] == "in_progress"
    assert row["version"] == 1
    # To ask again does no harm.
    assert (await shelf.apply()).followed == 0
    await shelf.version({**OLD, "x-fieldmark": {"rules": [{"equals": ["number", "total"]}]}})
    assert (await shelf.apply()).followed == 2
    assert shelf.row(one)["status"] == "in_progress" and shelf.begun == []


async def test_no_value_is_removed_and_what_a_person_set_stays_locked(shelf):
    one = await shelf.extraction({"number": "1"}, locked={"total": 4}, completed=True)
    revid = await shelf.version(CLOSED)
    assert (await shelf.apply()).followed == 1
    row = shelf.row(one)
    assert row["extracted_fields"] == {"number": "1", "total": 4} and "total" in row["locks"]
    assert (row["schema_revid"], row["status"], row["version"]) == (revid, "in_progress", 2)
    assert len(shelf.begun) == 1 and shelf.begun == [(one, ["total"])]
    # Of too many changed fields all are read.
    await shelf.version({"type": "object", "properties": {f"k{n}": TEXT for n in range(101)}})
    await shelf.apply()
    assert shelf.begun[1:] == [(one, None)]


async def test_what_a_run_works_on_is_skipped(shelf):
    one = await shelf.extraction({"number": "1", "total": 3})
    await shelf.version(MORE)
    run_id = await at_work(shelf, one)
    for status in ("queued", "running", "awaiting_approval", "awaiting_runs"):
        shelf.case.sql("update public.runs set status = %s, waiting_call = 'c' where id = %s", status, run_id)
        done = await shelf.apply()
        assert (done.followed, skipped(done)) == (0, [(one, "at_work")])
    shelf.case.sql("update public.runs set status = 'cancelled' where id = %s", run_id)
    assert (await shelf.apply()).followed == 1


def skipped(done) -> list[tuple[UUID, str]]:
    return [(one.extraction_id, one.why) for one in done.skipped]


async def at_work(shelf, extraction_id, scope=None):
    scope = scope or shelf.case.scope
    async with shelf.case.database.as_user(scope) as conn:
        return await runs.add(
            conn,
            scope,
            id=uuid4(),
            agent="extraction",
            task="extract",
            task_input={},
            subject=runs.Subject(shelf.case.document_id, extraction_id),
        )


async def test_what_a_run_of_somebodys_own_conversation_works_on_is_skipped_too(shelf, make_user):
    """It is out of the caller's sight, and at work all the same."""
    one = await shelf.extraction({"number": "1", "total": 3})
    await shelf.version(MORE)
    run_id = await at_work(shelf, one)
    other = await member_of(shelf, "member", make_user)
    thread = shelf.case.sql(
        "insert into public.threads (org_id, created_by, agent) values (%s, %s, 'document') returning id",
        shelf.case.scope.org_id,
        shelf.case.scope.user_id,
    )[0]["id"]
    shelf.case.sql("update public.runs set root_thread_id = %s where id = %s", thread, run_id)
    async with shelf.case.database.as_user(other) as conn:
        assert await runs.get(conn, run_id) is None
    assert skipped(await shelf.apply(other)) == [(one, "at_work")]
    # A viewer sees what a version would do, and does not do it.
    viewer = await member_of(shelf, "viewer", make_user)
    assert (await shelf.preview(viewer)).extractions == 1
    assert skipped(await shelf.apply(viewer)) == [(one, "not_found")]


async def member_of(shelf, role, make_user):
    user_id, org_id = (await make_user()).user_id, shelf.case.scope.org_id
    shelf.case.sql("insert into public.memberships (org_id, user_id, role) values (%s, %s, %s)", org_id, user_id, role)
    return Scope(user_id, org_id)


WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@asynccontextmanager
async def meanwhile(shelf):
    """A connection whose changes are committed while versions are being applied. Answers the task that applies them."""
    async with shelf.case.database.as_user(shelf.case.scope) as conn:
        done: list[asyncio.Task] = []
        yield conn, done
        done.append(asyncio.create_task(shelf.apply()))
        await until(lambda: shelf.case.sql(WAITING)[0]["count"] == 1)


async def test_what_somebody_else_brings_to_it_meanwhile_is_let_be(shelf):
    one = await shelf.extraction({"number": "1", "total": 3})
    revid = await shelf.version(MORE)
    async with meanwhile(shelf) as (conn, done):
        await extractions.lock(conn, one)
        await follow(conn, one, revid)
    assert skipped(await done[0]) == [(one, "follows_already")] and shelf.begun == []


async def test_where_the_queue_is_full_it_says_where_to_go_on(shelf):
    made = [await shelf.extraction({"number": str(n), "total": 3}) for n in range(3)]
    await shelf.version(MORE)

    async def full_after_one(conn, row, fields):
        if shelf.begun:
            raise QueueFull("Too many wait.")
        return await Shelf._begin(shelf, conn, row, fields)

    done = await schema_changes.apply(shelf.case.database, shelf.case.scope, shelf.schema_id, full_after_one, limit=200)
    assert (done.followed, done.stopped) == (1, "queue_full") and done.next is not None
    # What could not begin was not brought to the version either.
    assert [shelf.row(one)["schema_revid"] == shelf.revid for one in made] == [True, True, False]
    shelf.full = True
    with pytest.raises(QueueFull):
        await shelf.apply(before=done.next)
    shelf.full = False
    done = await shelf.apply(before=done.next)
    assert (done.followed, done.next, done.stopped) == (2, None, None)
    assert [one for one, _ in shelf.begun] == made[::-1]


async def test_some_alone_are_brought_to_it(shelf):
    made = [await shelf.extraction({"number": str(n), "total": 3}) for n in range(3)]
    revid = await shelf.version({**OLD, "title": "T"})
    nobodys = uuid4()
    done = await shelf.apply(extraction_ids=[made[1], nobodys])
    assert (done.followed, skipped(done)) == (1, [(nobodys, "not_found")])
    assert [shelf.row(one)["schema_revid"] == revid for one in made] == [False, True, False]
    done = await shelf.apply(extraction_ids=[made[1]])
    assert (done.followed, skipped(done)) == (0, [(made[1], "follows_already")])
    # Back to an older version, and then all of them in pages.
    assert (await shelf.apply(extraction_ids=[made[1]], revid=shelf.revid)).followed == 1
    first = await shelf.apply(limit=2)
    second = await shelf.apply(limit=2, before=first.next)
    assert [(one.followed, one.next is None) for one in (first, second)] == [(2, False), (1, True)]


async def test_nobody_of_another_organisation_sees_or_does_it(shelf, make_user):
    one = await shelf.extraction({"number": "1"})
    await shelf.version(MORE)
    stranger = await make_user()
    for asked in (shelf.preview, shelf.apply):
        with pytest.raises(NotFound):
            await asked(stranger)
    # Nor are their extractions reached by way of one's own schema.
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(
            document_with_pages(shelf.case.database, shelf.case.owner_url, stranger, ["Total: 1"])
        )
        own = await other_schema(theirs)
        done = await own.apply(extraction_ids=[one])
        assert (done.followed, skipped(done)) == (0, [(one, "not_found")])
        for asked in (own.preview, own.apply):
            with pytest.raises(NotFound):
                await asked(revid=shelf.revid)
    # Nor is a version of another schema one of this schema, nor one that cannot be used or is deleted.
    other = await other_schema(shelf.case)
    unusable = await shelf.version({"type": "object", "properties": {"w": {"$ref": "#/$defs/none"}}})
    for asked in (shelf.preview, shelf.apply):
        with pytest.raises(NotFound):
            await asked(revid=other.revid)
        with pytest.raises(InvalidSchema):
            await asked(revid=unusable)
    async with shelf.case.database.as_user(shelf.case.scope) as conn:
        await schemas.remove(conn, shelf.schema_id)
    for asked in (shelf.preview, shelf.apply):
        with pytest.raises(NotFound):
            await asked()
    assert shelf.row(one)["schema_revid"] == shelf.revid


async def other_schema(case):
    async with case.database.as_user(case.scope) as conn:
        row = await schemas.create(conn, case.scope.org_id, "Others", OLD)
    return Shelf(case, row.id, row.schema_revid)
