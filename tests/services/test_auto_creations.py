"""Schema suggestions (auto_create): starting and ending runs, accepting, rejecting, and matching earlier documents."""

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
from fieldmark.errors import (
    Conflict,
    Deleted,
    NotApprover,
    NotFound,
    ProposedAlready,
    SchemaProposed,
    SecondPersonNeeded,
)
from fieldmark.identity.scope import Scope
from fieldmark.services import auto_creations
from fieldmark.services.extraction_sources import find_source
from fieldmark.stores import auto_creations as rows
from fieldmark.stores import documents, extractions, organisations, runs, tool_calls
from fieldmark.stores.extractions import ExtractionFilter
from fieldmark.stores.library import PromptText, prompts, schemas, tags
from fieldmark.stores.rows import DocumentRow, NewChildDocument
from fieldmark.stores.runs import Subject
from pagewords import Page

pytestmark = pytest.mark.anyio

SCHEMA: JsonObject = {"type": "object", "properties": {"total": {"type": "number"}}}
INVOICE = "INVOICE\nInvoice number: {0}\nInvoice date: 2024-01-0{0}\nVendor: Acme\nSubtotal: {0}.00\nTotal: {0}.00\n"
RECEIPT = "RECEIPT\nCashier: {0}\nReceipt number: {0}\nChange: 0.00\nTotal: {0}.00\nTime: 10:0{0}\n"
HASH = "0" * 64


@dataclass
class Suggestion:
    """A document, and the auto_create run that was started for it."""

    organisation: Organisation
    document_id: UUID
    run_id: UUID
    token: int = 0
    schema_revid: UUID | None = None
    prompt_revid: UUID | None = None
    extraction_id: UUID | None = None

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[Connection]:
        """Open a transaction in which a tool call of the run writes."""
        call_id = f"call-{uuid4()}"
        async with self.organisation.as_user() as conn:
            await tool_calls.record(
                conn,
                run_id=self.run_id,
                fencing_token=self.token,
                org_id=self.organisation.scope.org_id,
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

    async def claim_run(self) -> Suggestion:
        async with self.organisation.as_user() as conn:
            claimed = await runs.claim(conn, self.run_id)
        assert claimed is not None
        self.token = claimed.fencing_token
        return self

    async def create_schema_and_prompt(self, name: str = "Invoices") -> None:
        async with self.call() as conn:
            self.schema_revid = (await schemas.create(conn, self.organisation.scope.org_id, name, SCHEMA)).schema_revid
            head = await schemas.get_version(conn, self.schema_revid)
            assert head is not None
            text = PromptText(name, "Read it.", head.id)
            self.prompt_revid = (await prompts.create(conn, self.organisation.scope.org_id, text)).prompt_revid
            await rows.save_ids(conn, self.run_id, schema_revid=self.schema_revid, prompt_revid=self.prompt_revid)

    async def extract(self, child_status: RunStatus = RunStatus.COMPLETED) -> UUID:
        """Add an extraction by the prompt, and an ended child run for it."""
        async with self.call() as conn:
            extraction_id = await extractions.add(
                conn,
                org_id=self.organisation.scope.org_id,
                document_id=self.document_id,
                prompt_revid=self.prompt_revid,
                schema_revid=self.schema_revid if self.prompt_revid is None else None,
            )
            child = await runs.add(
                conn,
                self.organisation.scope,
                id=new_id(),
                agent="extraction",
                task="extract",
                task_input={},
                subject=Subject(self.document_id, extraction_id),
                parent=(self.run_id, "call"),
            )
            await runs.finish(conn, child, child_status, error="Failed." if child_status is RunStatus.FAILED else None)
            await rows.save_ids(conn, self.run_id, extraction_id=extraction_id)
        self.extraction_id = extraction_id
        return extraction_id

    async def end(self, status: RunStatus = RunStatus.COMPLETED, error: str | None = None) -> None:
        async with self.organisation.as_user() as conn:
            await runs.finish(conn, self.run_id, status, error=error)

    async def decide(self, accepted: bool, scope: Scope | None = None) -> DocumentRow:
        async with self.organisation.as_user(scope) as conn:
            return await auto_creations.decide(conn, self.document_id, accepted=accepted)

    async def state(self) -> dict[str, Any]:
        async with self.organisation.as_user() as conn:
            document = await documents.find(conn, self.document_id)
        assert document is not None and document.auto_create is not None
        return dict(document.auto_create)

    async def complete_run(self, name: str = "Invoices") -> Suggestion:
        await self.claim_run()
        await self.create_schema_and_prompt(name)
        await self.extract()
        await self.end()
        assert (await self.state())["status"] == "proposed"
        return self


@dataclass
class Organisation:
    """An organisation with its members and documents."""

    database: Database
    owner_url: str
    scope: Scope
    make_user: Callable[[], Awaitable[Scope]]

    def as_user(self, scope: Scope | None = None) -> Any:
        return self.database.as_user(scope or self.scope)

    async def add_member(self, role: str = "member") -> Scope:
        user = await self.make_user()
        self.sql(
            "insert into memberships (org_id, user_id, role) values (%s, %s, %s)", self.scope.org_id, user.user_id, role
        )
        return Scope(user.user_id, self.scope.org_id)

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return sql(self.owner_url, query, *parameters)

    def count(self, table: str) -> int:
        return self.sql(f"select count(*) as n from {table}")[0]["n"]

    def count_created(self) -> dict[str, int]:
        """Return the number of rows by table of all that a run can create, without zeros."""
        tables = ("schemas", "schema_versions", "prompts", "prompt_versions", "extractions", "tags", "document_tags")
        return {table: n for table in tables if (n := self.count(table))}

    async def upload(self, text: str = INVOICE.format(1), auto_create: bool | None = True, **more: Any) -> UUID:
        document_id = uuid4()
        path = f"{self.scope.org_id}/{document_id}/a.txt"
        async with self.as_user(more.get("scope")) as conn:
            await documents.add(
                conn,
                document_id=document_id,
                org_id=self.scope.org_id,
                filename="a.txt",
                storage_path=path,
                byte_size=1,
                auto_create=auto_create,
            )
            page = Page(number=1, width=600, height=800, text=text, words=[], engine="text")
            await documents.add_pages(conn, document_id, self.scope.org_id, [page])
        return document_id

    async def read(self, document_id: UUID, media_type: str = "text/plain", scope: Scope | None = None) -> DocumentRow:
        async with self.as_user(scope) as conn:
            await documents.finish_reading(conn, document_id, media_type=media_type, page_count=1)
            row = await documents.find(conn, document_id)
        assert row is not None and row.status == "ready"
        return row

    async def upload_and_read(self, text: str = INVOICE.format(1), **more: Any) -> Suggestion:
        """Upload and read a document. Return the suggestion whose run has started."""
        document_id = await self.upload(text, **more)
        row = await self.read(document_id)
        assert row.auto_create is not None and row.auto_create["status"] == "running", row.auto_create
        return Suggestion(self, document_id, UUID(str(row.auto_create["run_id"])))


@pytest.fixture
async def organisation(database: Database, clone: Any, make_user: Callable[[], Awaitable[Scope]]) -> Organisation:
    return Organisation(database, clone.owner_url, await make_user(), make_user)


# Starting -------------------------------------------------------------------------------------------------------------


async def test_run_starts_once_a_document_is_read_if_it_or_its_organisation_wants(organisation: Organisation) -> None:
    started = 0
    for requested, setting, starts in ((True, False, 1), (None, True, 1), (False, True, 0), (None, False, 0)):
        async with organisation.as_user() as conn:
            await organisations.update(conn, organisation.scope.org_id, {"auto_create": setting})
        document_id = await organisation.upload(auto_create=requested)
        assert organisation.count("runs") == started
        assert ((await organisation.read(document_id)).auto_create is not None) == starts
        run_rows = organisation.sql("select task, approval, background from runs where document_id = %s", document_id)
        assert run_rows == starts * [{"task": "auto_create", "approval": "auto", "background": True}]
        started += starts
    # Not for an archive, but for the files in it.
    archive, child = await organisation.upload(), uuid4()
    assert (await organisation.read(archive, "application/zip")).auto_create is None
    async with organisation.as_user() as conn:
        path = f"{organisation.scope.org_id}/{child}/b.txt"
        await documents.add_children(
            conn, archive, organisation.scope.org_id, [NewChildDocument(child, "b.txt", path, 1)]
        )
    assert (await organisation.read(child)).auto_create is not None
    # If the organisation requires a second approver, the run asks for approval.
    async with organisation.as_user() as conn:
        await organisations.update(conn, organisation.scope.org_id, {"second_person": True})
    suggestion = await organisation.upload_and_read()
    assert organisation.sql("select approval from runs where id = %s", suggestion.run_id) == [{"approval": "ask"}]


async def test_document_is_ready_even_if_the_run_may_not_start(organisation: Organisation) -> None:
    viewer, gone = await organisation.add_member(), await organisation.add_member()
    ids = [await organisation.upload(scope=viewer), await organisation.upload(scope=gone), await organisation.upload()]
    organisation.sql(
        "update memberships set role = 'viewer' where (user_id, org_id) = (%s, %s)", viewer.user_id, viewer.org_id
    )
    organisation.sql("delete from memberships where (user_id, org_id) = (%s, %s)", gone.user_id, gone.org_id)
    organisation.sql("insert into queue_limits (org_id, max_waiting_runs) values (%s, 0)", organisation.scope.org_id)
    for document_id in ids:
        row = await organisation.read(document_id)  # as another user: a former member cannot
        assert row.auto_create is not None and row.auto_create["status"] == "failed" and row.auto_create["error"]
    assert organisation.count("runs") == 0


async def start_run(organisation: Organisation, document_id: UUID, scope: Scope | None = None) -> UUID:
    scope = scope or organisation.scope
    async with organisation.as_user(scope) as conn:
        return await runs.add(
            conn,
            scope,
            id=new_id(),
            agent="document",
            task="auto_create",
            task_input={},
            subject=Subject(document_id),
        )


async def test_document_has_one_run_or_proposal_at_a_time(organisation: Organisation) -> None:
    suggestion = await organisation.upload_and_read()
    with pytest.raises(ProposedAlready):
        await start_run(organisation, suggestion.document_id)
    await suggestion.claim_run()
    await suggestion.end(RunStatus.FAILED, "Failed.")
    assert (await suggestion.state())["status"] == "failed"
    suggestion.run_id = await start_run(organisation, suggestion.document_id)
    assert (await suggestion.state())["run_id"] == str(suggestion.run_id)
    await suggestion.complete_run()
    with pytest.raises(ProposedAlready):
        await start_run(organisation, suggestion.document_id)
    await suggestion.decide(True)
    with pytest.raises(ProposedAlready):
        await start_run(organisation, suggestion.document_id)


# Ending ---------------------------------------------------------------------------------------------------------------


async def test_created_objects_are_proposed_until_accepted(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).claim_run()
    await suggestion.create_schema_and_prompt()
    await suggestion.extract()
    last_id = await suggestion.extract()
    await suggestion.end()
    assert [one["id"] for one in organisation.sql("select id from extractions")] == [last_id]  # the last one
    state = await suggestion.state()
    assert (state["status"], state["schema_revid"], state["prompt_revid"], state["extraction_id"], state["error"]) == (
        "proposed",
        *map(str, (suggestion.schema_revid, suggestion.prompt_revid, suggestion.extraction_id)),
        None,
    )
    assert await are_proposed(suggestion) == (True, True, True)
    async with organisation.as_user() as conn:  # an extraction of a user is not proposed
        user_extraction = await extractions.add(
            conn,
            org_id=organisation.scope.org_id,
            document_id=suggestion.document_id,
            schema_revid=suggestion.schema_revid,
        )
        filters = ExtractionFilter(suggestion.document_id)
        listed = (await extractions.list_extractions(conn, organisation.scope.org_id, limit=9, filters=filters)).items
        assert [one.proposed for one in listed] == [False, True]
        await extractions.remove(conn, user_extraction)
    await suggestion.decide(True, await organisation.add_member())
    assert (await suggestion.state())["status"] == "accepted"
    assert await are_proposed(suggestion) == (False, False, False)
    async with organisation.as_user() as conn:
        await documents.remove(conn, suggestion.document_id)
    assert organisation.count_created() == {"schemas": 1, "schema_versions": 1, "prompts": 1, "prompt_versions": 1}


async def are_proposed(suggestion: Suggestion) -> tuple[bool, bool, bool]:
    assert suggestion.schema_revid and suggestion.prompt_revid and suggestion.extraction_id
    async with suggestion.organisation.as_user() as conn:
        schema = await schemas.get_version(conn, suggestion.schema_revid)
        prompt = await prompts.get_version(conn, suggestion.prompt_revid)
        extraction = await extractions.get(conn, suggestion.extraction_id)
    return schema.is_proposed, prompt.is_proposed, extraction.proposed


async def test_unsuccessful_run_leaves_nothing(organisation: Organisation) -> None:
    for number, outcome in enumerate(
        ["failed", "cancelled", "abandoned", "nothing extracted", "child failed", "deleted"]
    ):
        suggestion = await (await organisation.upload_and_read(INVOICE.format(number))).claim_run()
        await suggestion.create_schema_and_prompt()
        async with suggestion.call() as conn:
            tag = (await tags.create(conn, organisation.scope.org_id, "new", "#000000")).id
            await tags.change_document_tags(conn, suggestion.document_id, add=[tag], remove=[])
        if outcome != "nothing extracted":
            await suggestion.extract(RunStatus.FAILED if outcome == "child failed" else RunStatus.COMPLETED)
        async with organisation.as_user() as conn:
            if outcome == "cancelled":
                await runs.cancel(conn, suggestion.run_id, "Cancelled.")
            elif outcome == "deleted":
                await documents.remove(conn, suggestion.document_id)
            elif outcome != "abandoned":
                failed = outcome == "failed"
                await runs.finish(
                    conn,
                    suggestion.run_id,
                    RunStatus.FAILED if failed else RunStatus.COMPLETED,
                    error="Failed." if failed else None,
                )
        if outcome == "abandoned":
            async with organisation.database.as_service() as conn:
                await runs.fail(conn, suggestion.run_id, "Abandoned.", RunError.ABANDONED)
        if outcome != "deleted":
            state = await suggestion.state()
            assert (outcome, state["status"], bool(state["error"])) == (outcome, "failed", True)
        assert (outcome, organisation.count_created()) == (outcome, {})
    # Nor does an undecided suggestion of a deleted document.
    suggestion = await (await organisation.upload_and_read()).complete_run()
    async with organisation.as_user() as conn:
        await documents.remove(conn, suggestion.document_id)
    assert organisation.count_created() == {}


# Decisions ------------------------------------------------------------------------------------------------------------


async def test_rejecting_removes_only_what_the_run_created(organisation: Organisation) -> None:
    async with organisation.as_user() as conn:
        await schemas.create(conn, organisation.scope.org_id, "Mine", SCHEMA)
        tag = (await tags.create(conn, organisation.scope.org_id, "old", "#000000")).id
    suggestion = await (await organisation.upload_and_read()).complete_run()
    other = await (await organisation.upload_and_read(RECEIPT.format(1))).complete_run("Receipts")
    async with organisation.as_user() as conn:
        await tags.change_document_tags(conn, other.document_id, add=[tag], remove=[])
    before = organisation.count_created()
    await suggestion.decide(False)
    state = await suggestion.state()
    assert (state["status"], state["schema_revid"], state["prompt_revid"], state["extraction_id"]) == (
        *("rejected", None, None, None),
    )
    removed = {"schemas": 1, "schema_versions": 1, "prompts": 1, "prompt_versions": 1, "extractions": 1}
    assert organisation.count_created() == {table: n - removed.get(table, 0) for table, n in before.items()}
    assert await are_proposed(other) == (True, True, True)
    names = {row["name"] for row in organisation.sql("select name from schemas where deleted_at is null")}
    assert names == {"Mine", "Receipts"}


async def test_rejecting_removes_unused_tags_of_the_run(organisation: Organisation) -> None:
    org_id = organisation.scope.org_id
    async with organisation.as_user() as conn:
        old, both = [(await tags.create(conn, org_id, name)).id for name in ("old", "both")]
    suggestion = await (await organisation.upload_and_read()).claim_run()
    await suggestion.create_schema_and_prompt()
    async with suggestion.call() as conn:
        new, kept, changed = [(await tags.create(conn, org_id, name)).id for name in ("new", "kept", "changed")]
        await tags.change_document_tags(conn, suggestion.document_id, add=[old, both, new, kept], remove=[])
        await tags.update(conn, changed, name="newer", color=None)
    await suggestion.extract()
    await suggestion.end()
    other = await organisation.upload(auto_create=False)
    async with organisation.as_user() as conn:
        await tags.change_document_tags(conn, suggestion.document_id, add=[both], remove=[])  # a user adds the tag too
        await tags.change_document_tags(conn, other, add=[kept], remove=[])
        await tags.update(conn, changed, name=None, color="#ffffff")
    await suggestion.decide(False)
    named = {row["name"] for row in organisation.sql("select name from tags where deleted_at is null")}
    assert named == {"old", "both", "kept", "newer"}
    put = organisation.sql("select document_id, tag_id from document_tags")
    assert {(row["document_id"], row["tag_id"]) for row in put} == {(suggestion.document_id, both), (other, kept)}


async def test_rejecting_keeps_what_a_user_has_changed(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).complete_run()
    assert suggestion.schema_revid and suggestion.prompt_revid and suggestion.extraction_id
    async with organisation.as_user() as conn:
        schema = await schemas.get_version(conn, suggestion.schema_revid)
        prompt = await prompts.get_version(conn, suggestion.prompt_revid)
        await schemas.update(conn, schema.id, name="Mine now", schema=None, revid=None)
        await prompts.update(conn, prompt.id, PromptText("Mine now", "Look.", schema.id), revid=None)
    await suggestion.decide(False)
    async with organisation.as_user() as conn:
        for kept in (await schemas.get(conn, schema.id), await prompts.get(conn, prompt.id)):
            assert (kept.name, kept.is_deleted, kept.is_proposed) == ("Mine now", False, False)
    assert organisation.count("extractions") == 0
    # An extraction with a value set by a user stays, with its schema.
    suggestion = await (await organisation.upload_and_read(RECEIPT.format(1))).complete_run("Receipts")
    async with organisation.as_user() as conn:
        await extractions.update_field(conn, suggestion.extraction_id or uuid4(), ("total",), 12.5, {}, {})
    await suggestion.decide(False)
    async with organisation.as_user() as conn:
        row = await extractions.get(conn, suggestion.extraction_id or uuid4())
    assert (row.extracted_fields, row.schema, row.proposed) == ({"total": 12.5}, SCHEMA, False)
    assert organisation.sql("select deleted_at is null as seen from schemas where name = 'Receipts'") == [
        {"seen": False}
    ]


async def test_rejecting_keeps_the_schema_of_user_created_objects(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).complete_run()
    assert suggestion.schema_revid
    async with organisation.as_user() as conn:
        schema = await schemas.get_version(conn, suggestion.schema_revid)
        assert schema
        user_prompt = (
            await prompts.create(conn, organisation.scope.org_id, PromptText("Mine", "Look.", schema.id))
        ).prompt_revid
        other = await organisation.upload(auto_create=False)
        extraction_id = await extractions.add(
            conn, org_id=organisation.scope.org_id, document_id=other, schema_revid=suggestion.schema_revid
        )
    await suggestion.decide(False)
    async with organisation.as_user() as conn:
        hidden = await schemas.get(conn, schema.id)
        assert hidden and hidden.is_deleted  # not listed, and not usable for new extractions
        assert await prompts.find_version(conn, suggestion.prompt_revid or uuid4()) is None
        kept = await extractions.find(conn, extraction_id)
        assert kept and kept.schema == SCHEMA
        with pytest.raises(Deleted):
            await find_source(conn, organisation.scope, user_prompt)


async def test_extraction_started_during_rejection_gets_not_found(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).complete_run()

    async def add_extraction() -> None:
        async with organisation.as_user() as conn:
            await extractions.add(
                conn,
                org_id=organisation.scope.org_id,
                document_id=suggestion.document_id,
                schema_revid=suggestion.schema_revid,
            )

    blocked = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with organisation.as_user() as conn:
        await auto_creations.decide(conn, suggestion.document_id, accepted=False)
        adding = asyncio.create_task(add_extraction())
        await until(lambda: organisation.sql(blocked))
    with pytest.raises(NotFound):
        await adding
    assert organisation.count_created() == {}


async def test_extraction_started_before_rejection_continues(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).complete_run()

    blocked = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with organisation.as_user() as conn:
        extraction_id = await extractions.add(
            conn,
            org_id=organisation.scope.org_id,
            document_id=suggestion.document_id,
            schema_revid=suggestion.schema_revid,
        )
        rejecting = asyncio.create_task(suggestion.decide(False))
        await until(lambda: organisation.sql(blocked))
    await rejecting
    assert [row["id"] for row in organisation.sql("select id from extractions")] == [extraction_id]
    assert organisation.count_created() == {"schemas": 1, "schema_versions": 1, "extractions": 1}


async def test_proposal_is_decided_once_after_the_run_has_ended(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).claim_run()
    await suggestion.create_schema_and_prompt()
    for accepted in (True, False):
        with pytest.raises(Conflict):
            await suggestion.decide(accepted)
    await suggestion.extract()
    await suggestion.end()
    await suggestion.decide(True)
    decided = organisation.sql("select decided_by, decided_at from auto_creations")
    await suggestion.decide(True)
    assert organisation.sql("select decided_by, decided_at from auto_creations") == decided
    with pytest.raises(Conflict):
        await suggestion.decide(False)
    assert organisation.count("schemas") == 1


async def test_proposal_is_decided_by_the_approvers_of_the_organisation(organisation: Organisation) -> None:
    suggestion = await (await organisation.upload_and_read()).complete_run()
    member = await organisation.add_member()
    org_id = organisation.scope.org_id

    async def all_refused(error: type[Exception], *scopes: Scope) -> None:
        for scope in scopes:
            for accepted in (True, False):
                with pytest.raises(error):
                    await suggestion.decide(accepted, scope)
        assert (await suggestion.state())["status"] == "proposed"

    await all_refused(NotFound, await organisation.add_member("viewer"), await organisation.make_user())
    organisation.sql("update organisations set approvers = 'owners' where id = %s", org_id)
    await all_refused(NotApprover, member)
    organisation.sql("update organisations set approvers = 'members', second_person = true where id = %s", org_id)
    await all_refused(SecondPersonNeeded, organisation.scope)
    await suggestion.decide(False, member)
    assert (await suggestion.state())["status"] == "rejected"


# Matching -------------------------------------------------------------------------------------------------------------


async def match_earlier(suggestion: Suggestion) -> rows.AutoCreationRow:
    await suggestion.claim_run()
    async with suggestion.organisation.as_user() as conn:
        return await auto_creations.match_earlier_document(
            conn, suggestion.organisation.scope, suggestion.run_id, suggestion.document_id
        )


async def suggest_first(
    organisation: Organisation, text: str = INVOICE.format(1), name: str = "Invoices"
) -> Suggestion:
    suggestion = await organisation.upload_and_read(text)
    assert (await match_earlier(suggestion)).matched is None
    await suggestion.create_schema_and_prompt(name)
    await suggestion.extract()
    await suggestion.end()
    return suggestion


async def test_document_of_the_same_layout_matches_the_earlier_one(organisation: Organisation) -> None:
    earlier = await suggest_first(organisation)
    row = await match_earlier(await organisation.upload_and_read(INVOICE.format(2)))
    assert row.matched is not None
    assert row.matched["document_id"] == str(earlier.document_id)
    assert (row.schema_revid, row.prompt_revid) == (earlier.schema_revid, None)
    assert row.kind == "invoice"
    # The match stays when the run is repeated.
    await earlier.decide(False)
    async with organisation.as_user() as conn:
        assert (
            await auto_creations.match_earlier_document(conn, organisation.scope, row.run_id, row.document_id)
        ).matched == row.matched


async def test_match_uses_the_latest_schema_and_an_accepted_prompt(organisation: Organisation) -> None:
    earlier = await suggest_first(organisation)
    assert earlier.schema_revid and earlier.prompt_revid
    await earlier.decide(True)
    assert (
        await match_earlier(await organisation.upload_and_read(INVOICE.format(3)))
    ).prompt_revid == earlier.prompt_revid
    async with organisation.as_user() as conn:
        schema = await schemas.get_version(conn, earlier.schema_revid)
        newer = (await schemas.update(conn, schema.id, name="Better")).schema_revid
        await prompts.remove(conn, (await prompts.get_version(conn, earlier.prompt_revid)).id)
    row = await match_earlier(await organisation.upload_and_read(INVOICE.format(2)))
    assert row.matched is not None and row.matched["prompt_revid"] is None
    assert (row.schema_revid, row.prompt_revid) == (newer, None)


async def suggest_from_match(organisation: Organisation, number: int = 2) -> Suggestion:
    suggestion = await organisation.upload_and_read(INVOICE.format(number))
    row = await match_earlier(suggestion)
    assert row.matched is not None
    suggestion.schema_revid, suggestion.prompt_revid = row.schema_revid, row.prompt_revid
    await suggestion.extract()
    await suggestion.end()
    return suggestion


async def test_accepting_needs_an_accepted_schema(organisation: Organisation) -> None:
    earlier, later = await suggest_first(organisation), await suggest_from_match(organisation)
    with pytest.raises(SchemaProposed):
        await later.decide(True)
    assert (await later.state())["status"] == "proposed"
    await earlier.decide(True)
    await later.decide(True)
    assert (await later.state())["status"] == "accepted"
    # Rejecting is always possible.
    await (await suggest_from_match(organisation, 3)).decide(False)


async def test_document_that_is_not_alike_does_not_match(organisation: Organisation) -> None:
    await suggest_first(organisation)
    assert (await match_earlier(await organisation.upload_and_read(RECEIPT.format(2)))).matched is None
    form = "FORM\nName: {0}\nStreet: {0}\nTown: {0}\nBorn: 1.1.198{0}\nJob: {0}\n"
    await suggest_first(organisation, form.format(1), "Forms")
    other = "FORM\nName: 2\nCar: 9\nPlate: 1\nColour: red\nYear: 2\nSeats: 4\n"
    assert (await match_earlier(await organisation.upload_and_read(other))).matched is None
    assert (await match_earlier(await organisation.upload_and_read(form.format(2)))).matched is not None


async def test_invoice_of_another_layout_matches(organisation: Organisation) -> None:
    earlier = await suggest_first(organisation)
    for text in ("INVOICE\nInvoice number: 2\nOrder: 9\nCustomer: Ann\nIBAN: DE1\n", "INVOICE\n"):
        matched = (await match_earlier(await organisation.upload_and_read(text))).matched
        assert matched is not None and matched["document_id"] == str(earlier.document_id)


async def test_rejected_deleted_and_foreign_proposals_do_not_match(organisation: Organisation) -> None:
    rejected = await suggest_first(organisation)
    await rejected.decide(False)
    deleted = await suggest_first(organisation, INVOICE.format(2))
    async with organisation.as_user() as conn:
        schema = await schemas.get_version(conn, deleted.schema_revid or uuid4())
        assert schema
        await schemas.remove(conn, schema.id)
    other_organisation = Organisation(
        organisation.database, organisation.owner_url, await organisation.make_user(), organisation.make_user
    )
    await suggest_first(other_organisation, INVOICE.format(3))
    assert (await match_earlier(await organisation.upload_and_read(INVOICE.format(4)))).matched is None


async def test_rejecting_one_of_two_matched_proposals_keeps_their_schema(organisation: Organisation) -> None:
    earlier = await suggest_first(organisation)
    later = await suggest_from_match(organisation)
    await earlier.decide(False)
    state = await later.state()
    assert state["status"] == "proposed" and state["schema_revid"]
    await later.decide(True)
    async with organisation.as_user() as conn:
        assert (await extractions.get(conn, later.extraction_id or uuid4())).schema == SCHEMA


async def test_rejecting_a_matched_proposal_keeps_the_earlier_schema(organisation: Organisation) -> None:
    earlier = await suggest_first(organisation)
    await earlier.decide(True)
    before = organisation.count_created()
    await (await suggest_from_match(organisation)).decide(False)
    assert organisation.count_created() == before
    assert organisation.sql("select deleted_at is null as seen from schemas") == [{"seen": True}]
