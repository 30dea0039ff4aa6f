"""What an agent proposes by itself when a document is read: begun, ended, accepted or rejected, and taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest

from extraction_case import sql, until
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.ids import new_id
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.statuses import CallStatus, RunError, RunStatus
from fieldmark.errors import Conflict, NotApprover, NotFound, ProposedAlready, SchemaProposed, SecondPersonNeeded
from fieldmark.identity.scope import Scope
from fieldmark.services import auto_creations
from fieldmark.stores import auto_creations as rows
from fieldmark.stores import documents, extractions, organisations, runs, tool_calls
from fieldmark.stores.extractions import ExtractionFilter
from fieldmark.stores.library import PromptText, prompts, schemas, tags
from fieldmark.stores.rows import DocumentRow, NewChild, PageRow
from fieldmark.stores.runs import Subject

pytestmark = pytest.mark.anyio

SCHEMA: JsonObject = {"type": "object", "properties": {"total": {"type": "number"}}}
INVOICE = "INVOICE\nInvoice number: {0}\nInvoice date: 2024-01-0{0}\nVendor: Acme\nSubtotal: {0}.00\nTotal: {0}.00\n"
RECEIPT = "RECEIPT\nCashier: {0}\nReceipt number: {0}\nChange: 0.00\nTotal: {0}.00\nTime: 10:0{0}\n"
HASH = "0" * 64


@dataclass
class Proposal:
    """One document, and the run that was begun for it, as its worker holds it."""

    house: House
    document_id: UUID
    run_id: UUID
    token: int = 0
    schema_revid: UUID | None = None
    prompt_revid: UUID | None = None
    extraction_id: UUID | None = None

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[Connection]:
        """A transaction in which the run's call writes."""
        call_id = f"call-{uuid4()}"
        async with self.house.acting() as conn:
            await tool_calls.record(
                conn,
                run_id=self.run_id,
                fencing_token=self.token,
                org_id=self.house.scope.org_id,
                call_id=call_id,
                tool="a",
                arguments={},
                arguments_hash=HASH,
                status=CallStatus.APPROVED,
            )
            assert await tool_calls.claim(
                conn, run_id=self.run_id, fencing_token=self.token, call_id=call_id, tool="a", arguments_hash=HASH
            )
            yield conn

    async def begin(self) -> Proposal:
        async with self.house.acting() as conn:
            claimed = await runs.claim(conn, self.run_id)
        assert claimed is not None
        self.token = claimed.fencing_token
        return self

    async def make(self, name: str = "Invoices") -> None:
        """A schema and a prompt."""
        async with self.call() as conn:
            self.schema_revid = (await schemas.create(conn, self.house.scope.org_id, name, SCHEMA)).schema_revid
            head = await schemas.get_version(conn, self.schema_revid)
            assert head is not None
            text = PromptText(name, "Read it.", head.id)
            self.prompt_revid = (await prompts.create(conn, self.house.scope.org_id, text)).prompt_revid
            await rows.save_ids(conn, self.run_id, schema_revid=self.schema_revid, prompt_revid=self.prompt_revid)

    async def extract(self, ends: RunStatus = RunStatus.COMPLETED) -> UUID:
        """An extraction by the prompt, and the part of the run that reads it, which has ended."""
        async with self.call() as conn:
            made = await extractions.add(
                conn,
                org_id=self.house.scope.org_id,
                document_id=self.document_id,
                prompt_revid=self.prompt_revid,
                schema_revid=self.schema_revid if self.prompt_revid is None else None,
            )
            child = await runs.add(
                conn,
                self.house.scope,
                id=new_id(),
                agent="extraction",
                task="extract",
                task_input={},
                subject=Subject(self.document_id, made),
                parent=(self.run_id, "call"),
            )
            await runs.finish(conn, child, ends, error="It broke." if ends is RunStatus.FAILED else None)
            await rows.save_ids(conn, self.run_id, extraction_id=made)
        self.extraction_id = made
        return made

    async def end(self, status: RunStatus = RunStatus.COMPLETED, error: str | None = None) -> None:
        async with self.house.acting() as conn:
            await runs.finish(conn, self.run_id, status, error=error)

    async def decide(self, accepted: bool, scope: Scope | None = None) -> DocumentRow:
        async with self.house.acting(scope) as conn:
            return await auto_creations.decide(conn, self.document_id, accepted=accepted)

    async def state(self) -> dict[str, Any]:
        async with self.house.acting() as conn:
            document = await documents.get(conn, self.document_id)
        assert document is not None and document.auto_create is not None
        return dict(document.auto_create)

    async def proposed(self, name: str = "Invoices") -> Proposal:
        await self.begin()
        await self.make(name)
        await self.extract()
        await self.end()
        assert (await self.state())["status"] == "proposed"
        return self


@dataclass
class House:
    """One organisation and who works in it."""

    database: Database
    owner_url: str
    scope: Scope
    make_user: Callable[[], Awaitable[Scope]]

    def acting(self, scope: Scope | None = None) -> Any:
        return self.database.as_user(scope or self.scope)

    async def member(self, role: str = "member") -> Scope:
        """Somebody else of this organisation."""
        user = await self.make_user()
        self.sql(
            "insert into memberships (org_id, user_id, role) values (%s, %s, %s)", self.scope.org_id, user.user_id, role
        )
        return Scope(user.user_id, self.scope.org_id)

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return sql(self.owner_url, query, *parameters)

    def count(self, table: str) -> int:
        return self.sql(f"select count(*) as n from {table}")[0]["n"]

    def left(self) -> dict[str, int]:
        """How much there is of all that a run can make."""
        tables = ("schemas", "schema_versions", "prompts", "prompt_versions", "extractions", "tags", "document_tags")
        return {table: n for table in tables if (n := self.count(table))}

    async def upload(self, text: str = INVOICE.format(1), auto_create: bool | None = True, **more: Any) -> UUID:
        document_id = uuid4()
        path = f"{self.scope.org_id}/{document_id}/a.txt"
        async with self.acting(more.get("scope")) as conn:
            await documents.add(
                conn,
                document_id=document_id,
                org_id=self.scope.org_id,
                filename="a.txt",
                storage_path=path,
                byte_size=1,
                auto_create=auto_create,
            )
            page = PageRow(number=1, width=600, height=800, text=text, words=[], engine="text")
            await documents.add_pages(conn, document_id, self.scope.org_id, [page])
        return document_id

    async def read(self, document_id: UUID, media_type: str = "text/plain", scope: Scope | None = None) -> DocumentRow:
        async with self.acting(scope) as conn:
            await documents.finish_reading(conn, document_id, media_type=media_type, page_count=1)
            row = await documents.get(conn, document_id)
        assert row is not None and row.status == "ready"
        return row

    async def document(self, text: str = INVOICE.format(1), **more: Any) -> Proposal:
        """A document that was read, and the run that was begun with that."""
        document_id = await self.upload(text, **more)
        row = await self.read(document_id)
        assert row.auto_create is not None and row.auto_create["status"] == "running", row.auto_create
        return Proposal(self, document_id, UUID(str(row.auto_create["run_id"])))


@pytest.fixture
async def house(database: Database, clone: Any, make_user: Callable[[], Awaitable[Scope]]) -> House:
    return House(database, clone.owner_url, await make_user(), make_user)


# Begun ----------------------------------------------------------------------------------------------------------------


async def test_it_begins_when_the_document_is_read_if_that_or_the_organisation_asks_for_it(house: House) -> None:
    begun = 0
    for wish, setting, begins in ((True, False, 1), (None, True, 1), (False, True, 0), (None, False, 0)):
        async with house.acting() as conn:
            await organisations.update(conn, house.scope.org_id, {"auto_create": setting})
        document_id = await house.upload(auto_create=wish)
        assert house.count("runs") == begun
        assert ((await house.read(document_id)).auto_create is not None) == begins
        made = house.sql("select task, approval, background from runs where document_id = %s", document_id)
        assert made == begins * [{"task": "auto_create", "approval": "auto", "background": True}]
        begun += begins
    # An archive has nothing to propose for, and what is in it has.
    archive, child = await house.upload(), uuid4()
    assert (await house.read(archive, "application/zip")).auto_create is None
    async with house.acting() as conn:
        path = f"{house.scope.org_id}/{child}/b.txt"
        await documents.add_children(conn, archive, house.scope.org_id, [NewChild(child, "b.txt", path, 1)])
    assert (await house.read(child)).auto_create is not None
    # Where a second person decides, its runs ask.
    async with house.acting() as conn:
        await organisations.update(conn, house.scope.org_id, {"second_person": True})
    it = await house.document()
    assert house.sql("select approval from runs where id = %s", it.run_id) == [{"approval": "ask"}]


async def test_where_no_run_may_start_the_document_is_ready_all_the_same(house: House) -> None:
    viewer, gone = await house.member(), await house.member()
    ids = [await house.upload(scope=viewer), await house.upload(scope=gone), await house.upload()]
    house.sql(
        "update memberships set role = 'viewer' where (user_id, org_id) = (%s, %s)", viewer.user_id, viewer.org_id
    )
    house.sql("delete from memberships where (user_id, org_id) = (%s, %s)", gone.user_id, gone.org_id)
    house.sql("insert into queue_limits (org_id, max_waiting_runs) values (%s, 0)", house.scope.org_id)
    for document_id in ids:
        row = await house.read(document_id)  # (as whoever is there: nobody reads in the name of somebody who left)
        assert row.auto_create is not None and row.auto_create["status"] == "failed" and row.auto_create["error"]
    assert house.count("runs") == 0


async def start(house: House, document_id: UUID, scope: Scope | None = None) -> UUID:
    scope = scope or house.scope
    async with house.acting(scope) as conn:
        return await runs.add(
            conn,
            scope,
            id=new_id(),
            agent="document",
            task="auto_create",
            task_input={},
            subject=Subject(document_id),
        )


async def test_one_at_a_time_and_none_where_something_is_proposed_or_accepted(house: House) -> None:
    it = await house.document()
    with pytest.raises(ProposedAlready):
        await start(house, it.document_id)
    await it.begin()
    await it.end(RunStatus.FAILED, "It broke.")
    assert (await it.state())["status"] == "failed"
    it.run_id = await start(house, it.document_id)
    assert (await it.state())["run_id"] == str(it.run_id)
    await it.proposed()
    with pytest.raises(ProposedAlready):
        await start(house, it.document_id)
    await it.decide(True)
    with pytest.raises(ProposedAlready):
        await start(house, it.document_id)


# Ended ----------------------------------------------------------------------------------------------------------------


async def test_what_it_made_is_proposed_until_somebody_accepts_it(house: House) -> None:
    it = await (await house.document()).begin()
    await it.make()
    await it.extract()
    last = await it.extract()
    await it.end()
    assert [one["id"] for one in house.sql("select id from extractions")] == [last]  # that it ended with
    state = await it.state()
    assert (state["status"], state["schema_revid"], state["prompt_revid"], state["extraction_id"], state["error"]) == (
        "proposed",
        *map(str, (it.schema_revid, it.prompt_revid, it.extraction_id)),
        None,
    )
    assert await marks(it) == (True, True, True)
    async with house.acting() as conn:  # what somebody starts with it is not proposed
        mine = await extractions.add(
            conn, org_id=house.scope.org_id, document_id=it.document_id, schema_revid=it.schema_revid
        )
        wanted = ExtractionFilter(it.document_id)
        listed = (await extractions.list_extractions(conn, house.scope.org_id, limit=9, filters=wanted)).items
        assert [one.proposed for one in listed] == [False, True]
        await extractions.remove(conn, mine)
    await it.decide(True, await house.member())
    assert (await it.state())["status"] == "accepted"
    assert await marks(it) == (False, False, False)
    async with house.acting() as conn:
        await documents.remove(conn, it.document_id)
    assert house.left() == {"schemas": 1, "schema_versions": 1, "prompts": 1, "prompt_versions": 1}


async def marks(it: Proposal) -> tuple[bool, bool, bool]:
    assert it.schema_revid and it.prompt_revid and it.extraction_id
    async with it.house.acting() as conn:
        schema = await schemas.get_version(conn, it.schema_revid)
        prompt = await prompts.get_version(conn, it.prompt_revid)
        extraction = await extractions.find(conn, it.extraction_id)
    return schema.is_proposed, prompt.is_proposed, extraction.proposed


async def test_a_run_that_comes_to_nothing_leaves_nothing(house: House) -> None:
    for number, how in enumerate(["failed", "cancelled", "abandoned", "nothing extracted", "a part failed", "deleted"]):
        it = await (await house.document(INVOICE.format(number))).begin()
        await it.make()
        async with it.call() as conn:
            tag = (await tags.create(conn, house.scope.org_id, "new", "#000000")).id
            await tags.change_document_tags(conn, it.document_id, add=[tag], remove=[])
        if how != "nothing extracted":
            await it.extract(RunStatus.FAILED if how == "a part failed" else RunStatus.COMPLETED)
        async with house.acting() as conn:
            if how == "cancelled":
                await runs.cancel(conn, it.run_id, "Cancelled.")
            elif how == "deleted":
                await documents.remove(conn, it.document_id)
            elif how != "abandoned":
                failed = how == "failed"
                await runs.finish(
                    conn,
                    it.run_id,
                    RunStatus.FAILED if failed else RunStatus.COMPLETED,
                    error="Out." if failed else None,
                )
        if how == "abandoned":
            async with house.database.as_service() as conn:
                await runs.fail(conn, it.run_id, "It could not be brought to its end.", RunError.ABANDONED)
        if how != "deleted":
            state = await it.state()
            assert (how, state["status"], bool(state["error"])) == (how, "failed", True)
        assert (how, house.left()) == (how, {})
    # Nor one that was proposed, when its document goes before anybody has decided.
    it = await (await house.document()).proposed()
    async with house.acting() as conn:
        await documents.remove(conn, it.document_id)
    assert house.left() == {}


# Decided --------------------------------------------------------------------------------------------------------------


async def test_rejecting_removes_what_the_run_made_and_nothing_else(house: House) -> None:
    async with house.acting() as conn:
        await schemas.create(conn, house.scope.org_id, "Mine", SCHEMA)
        old = (await tags.create(conn, house.scope.org_id, "old", "#000000")).id
    it = await (await house.document()).proposed()
    other = await (await house.document(RECEIPT.format(1))).proposed("Receipts")
    async with house.acting() as conn:
        await tags.change_document_tags(conn, other.document_id, add=[old], remove=[])
    before = house.left()
    await it.decide(False)
    state = await it.state()
    assert (state["status"], state["schema_revid"], state["prompt_revid"], state["extraction_id"]) == (
        *("rejected", None, None, None),
    )
    gone = {"schemas": 1, "schema_versions": 1, "prompts": 1, "prompt_versions": 1, "extractions": 1}
    assert house.left() == {table: n - gone.get(table, 0) for table, n in before.items()}
    assert await marks(other) == (True, True, True)
    names = {row["name"] for row in house.sql("select name from schemas where deleted_at is null")}
    assert names == {"Mine", "Receipts"}


async def test_tags_of_others_stay_and_those_of_the_run_go_from_the_document(house: House) -> None:
    org_id = house.scope.org_id
    async with house.acting() as conn:
        old, both = [(await tags.create(conn, org_id, name)).id for name in ("old", "both")]
    it = await (await house.document()).begin()
    await it.make()
    async with it.call() as conn:
        new, kept, changed = [(await tags.create(conn, org_id, name)).id for name in ("new", "kept", "changed")]
        await tags.change_document_tags(conn, it.document_id, add=[old, both, new, kept], remove=[])
        await tags.update(conn, changed, name="newer", color=None)
    await it.extract()
    await it.end()
    other = await house.upload(auto_create=False)
    async with house.acting() as conn:
        await tags.change_document_tags(conn, it.document_id, add=[both], remove=[])  # a person, too
        await tags.change_document_tags(conn, other, add=[kept], remove=[])
        await tags.update(conn, changed, name=None, color="#ffffff")
    await it.decide(False)
    named = {row["name"] for row in house.sql("select name from tags where deleted_at is null")}
    assert named == {"old", "both", "kept", "newer"}
    put = house.sql("select document_id, tag_id from document_tags")
    assert {(row["document_id"], row["tag_id"]) for row in put} == {(it.document_id, both), (other, kept)}


async def test_what_a_person_has_changed_stays(house: House) -> None:
    it = await (await house.document()).proposed()
    assert it.schema_revid and it.prompt_revid and it.extraction_id
    async with house.acting() as conn:
        schema = await schemas.get_version(conn, it.schema_revid)
        prompt = await prompts.get_version(conn, it.prompt_revid)
        await schemas.update(conn, schema.id, name="Mine now", schema=None, revid=None)
        await prompts.update(conn, prompt.id, PromptText("Mine now", "Look.", schema.id), revid=None)
    await it.decide(False)
    async with house.acting() as conn:
        for kept in (await schemas.get(conn, schema.id), await prompts.get(conn, prompt.id)):
            assert (kept.name, kept.is_deleted, kept.is_proposed) == ("Mine now", False, False)
    assert house.count("extractions") == 0
    # An extraction in which a person has set a value stays with its schema.
    it = await (await house.document(RECEIPT.format(1))).proposed("Receipts")
    async with house.acting() as conn:
        await extractions.update_field(conn, it.extraction_id or uuid4(), ("total",), 12.5, {}, {})
    await it.decide(False)
    async with house.acting() as conn:
        row = await extractions.find(conn, it.extraction_id or uuid4())
    assert (row.extracted_fields, row.schema, row.proposed) == ({"total": 12.5}, SCHEMA, False)
    assert house.sql("select deleted_at is null as seen from schemas where name = 'Receipts'") == [{"seen": False}]


async def test_what_a_person_made_with_it_can_be_used_as_before(house: House) -> None:
    it = await (await house.document()).proposed()
    assert it.schema_revid
    async with house.acting() as conn:
        schema = await schemas.get_version(conn, it.schema_revid)
        assert schema
        mine = (await prompts.create(conn, house.scope.org_id, PromptText("Mine", "Look.", schema.id))).prompt_revid
        other = await house.upload(auto_create=False)
        made = await extractions.add(conn, org_id=house.scope.org_id, document_id=other, schema_revid=it.schema_revid)
    await it.decide(False)
    async with house.acting() as conn:
        hidden = await schemas.get(conn, schema.id)
        assert hidden and hidden.is_deleted  # in no list, and for nothing new
        assert await prompts.find_version(conn, it.prompt_revid or uuid4()) is None
        kept = await extractions.get(conn, made)
        assert kept and kept.schema == SCHEMA
        again = await extractions.add(conn, org_id=house.scope.org_id, document_id=other, prompt_revid=mine)
        made_again = await extractions.get(conn, again)
        assert made_again and made_again.schema == SCHEMA


async def test_who_begins_with_it_while_it_is_rejected_is_told_that_it_is_gone(house: House) -> None:
    it = await (await house.document()).proposed()

    async def begin() -> None:
        async with house.acting() as conn:
            await extractions.add(
                conn, org_id=house.scope.org_id, document_id=it.document_id, schema_revid=it.schema_revid
            )

    waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with house.acting() as conn:
        await auto_creations.decide(conn, it.document_id, accepted=False)
        beginning = asyncio.create_task(begin())
        await until(lambda: house.sql(waiting))
    with pytest.raises(NotFound):
        await beginning
    assert house.left() == {}


async def test_who_has_begun_with_it_before_it_is_rejected_goes_on(house: House) -> None:
    it = await (await house.document()).proposed()

    waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with house.acting() as conn:
        mine = await extractions.add(
            conn, org_id=house.scope.org_id, document_id=it.document_id, schema_revid=it.schema_revid
        )
        rejecting = asyncio.create_task(it.decide(False))
        await until(lambda: house.sql(waiting))
    await rejecting
    assert [row["id"] for row in house.sql("select id from extractions")] == [mine]
    assert house.left() == {"schemas": 1, "schema_versions": 1, "extractions": 1}


async def test_it_is_decided_once_and_after_the_run_has_ended(house: House) -> None:
    it = await (await house.document()).begin()
    await it.make()
    for accepted in (True, False):
        with pytest.raises(Conflict):
            await it.decide(accepted)
    await it.extract()
    await it.end()
    await it.decide(True)
    decided = house.sql("select decided_by, decided_at from auto_creations")
    await it.decide(True)
    assert house.sql("select decided_by, decided_at from auto_creations") == decided
    with pytest.raises(Conflict):
        await it.decide(False)
    assert house.count("schemas") == 1


async def test_whoever_decides_runs_of_the_organisation_decides_it(house: House) -> None:
    it = await (await house.document()).proposed()
    member = await house.member()
    org_id = house.scope.org_id

    async def all_refused(error: type[Exception], *scopes: Scope) -> None:
        for scope in scopes:
            for accepted in (True, False):
                with pytest.raises(error):
                    await it.decide(accepted, scope)
        assert (await it.state())["status"] == "proposed"

    await all_refused(NotFound, await house.member("viewer"), await house.make_user())
    house.sql("update organisations set approvers = 'owners' where id = %s", org_id)
    await all_refused(NotApprover, member)
    house.sql("update organisations set approvers = 'members', second_person = true where id = %s", org_id)
    await all_refused(SecondPersonNeeded, house.scope)
    await it.decide(False, member)
    assert (await it.state())["status"] == "rejected"


# Known again ----------------------------------------------------------------------------------------------------------


async def recognised(it: Proposal) -> rows.AutoCreationRow:
    await it.begin()
    async with it.house.acting() as conn:
        return await auto_creations.match_earlier_document(conn, it.house.scope, it.run_id, it.document_id)


async def first(house: House, text: str = INVOICE.format(1), name: str = "Invoices") -> Proposal:
    """A document that was looked at, with what is proposed for it."""
    it = await house.document(text)
    assert (await recognised(it)).matched is None
    await it.make(name)
    await it.extract()
    await it.end()
    return it


async def test_a_document_of_the_same_form_is_known_again(house: House) -> None:
    earlier = await first(house)
    row = await recognised(await house.document(INVOICE.format(2)))
    assert row.matched is not None
    assert row.matched["document_id"] == str(earlier.document_id)
    assert (row.schema_revid, row.prompt_revid) == (earlier.schema_revid, None)
    assert row.kind == "invoice" and "5 of 5" in str(row.matched["why"])
    # Which stays so when the run is begun again.
    await earlier.decide(False)
    async with house.acting() as conn:
        assert (
            await auto_creations.match_earlier_document(conn, house.scope, row.run_id, row.document_id)
        ).matched == row.matched


async def test_its_prompt_is_lent_when_a_person_has_accepted_it_and_the_latest_schema(house: House) -> None:
    earlier = await first(house)
    assert earlier.schema_revid and earlier.prompt_revid
    await earlier.decide(True)
    assert (await recognised(await house.document(INVOICE.format(3)))).prompt_revid == earlier.prompt_revid
    async with house.acting() as conn:
        schema = await schemas.get_version(conn, earlier.schema_revid)
        newer = (await schemas.update(conn, schema.id, name="Better")).schema_revid
        await prompts.remove(conn, (await prompts.get_version(conn, earlier.prompt_revid)).id)
    row = await recognised(await house.document(INVOICE.format(2)))
    assert row.matched is not None and row.matched["prompt_revid"] is None
    assert (row.schema_revid, row.prompt_revid) == (newer, None)


async def borrowed(house: House, number: int = 2) -> Proposal:
    """What is proposed for a document like an earlier one."""
    it = await house.document(INVOICE.format(number))
    row = await recognised(it)
    assert row.matched is not None
    it.schema_revid, it.prompt_revid = row.schema_revid, row.prompt_revid
    await it.extract()
    await it.end()
    return it


async def test_nothing_is_accepted_by_a_schema_that_nobody_has_looked_at(house: House) -> None:
    earlier, later = await first(house), await borrowed(house)
    with pytest.raises(SchemaProposed) as refused:
        await later.decide(True)
    assert str(earlier.document_id) in str(refused.value)
    assert (await later.state())["status"] == "proposed"
    await earlier.decide(True)
    await later.decide(True)
    assert (await later.state())["status"] == "accepted"
    # Rejecting needs nothing of the kind.
    await (await borrowed(house, 3)).decide(False)


async def test_a_document_of_another_form_is_not(house: House) -> None:
    await first(house)
    for text in (
        RECEIPT.format(2),
        "INVOICE\nInvoice number: 2\nOrder: 9\nPage: 1\nCustomer: Ann\nTotal: 2.00\nIBAN: DE1\n",
        "INVOICE\nTotal: 2.00\n",
    ):
        assert (await recognised(await house.document(text))).matched is None


async def test_what_was_rejected_or_deleted_or_another_organisations_is_lent_to_nobody(house: House) -> None:
    rejected = await first(house)
    await rejected.decide(False)
    deleted = await first(house, INVOICE.format(2))
    async with house.acting() as conn:
        schema = await schemas.get_version(conn, deleted.schema_revid or uuid4())
        assert schema
        await schemas.remove(conn, schema.id)
    neighbours = House(house.database, house.owner_url, await house.make_user(), house.make_user)
    await first(neighbours, INVOICE.format(3))
    assert (await recognised(await house.document(INVOICE.format(4)))).matched is None


async def test_rejecting_one_of_two_leaves_the_other_what_both_have(house: House) -> None:
    earlier = await first(house)
    later = await borrowed(house)
    await earlier.decide(False)
    state = await later.state()
    assert state["status"] == "proposed" and state["schema_revid"]
    await later.decide(True)
    async with house.acting() as conn:
        assert (await extractions.find(conn, later.extraction_id or uuid4())).schema == SCHEMA


async def test_rejecting_what_was_matched_leaves_the_schema_that_it_took(house: House) -> None:
    earlier = await first(house)
    await earlier.decide(True)
    before = house.left()
    await (await borrowed(house)).decide(False)
    assert house.left() == before
    assert house.sql("select deleted_at is null as seen from schemas") == [{"seen": True}]
