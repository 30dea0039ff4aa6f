"""The stack agent's tools: what they write, and what they refuse."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from extraction_case import INVOICE, ExtractionCase, document_with_pages
from fieldmark.agents.stack.agent import STACK, create_stack_tools
from fieldmark.domain.column_definitions import parse_definitions
from fieldmark.domain.statuses import FieldStatus, RowStatus
from fieldmark.domain.table_query import TableQuery
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.services import stacks as stack_service
from fieldmark.services.tables import list_rows
from fieldmark.stores import extractions, runs, stacks, tool_calls
from fieldmark.stores.library import schemas
from fieldmark.stores.runs import RunOptions, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, collect, execute
from fieldmark.tools.toolset import MAX_RESULT_BYTES
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class StackRunCase:
    """A run of the stack agent on a stack with the case's document."""

    case: ExtractionCase
    stack_id: UUID
    context: RunContext
    max_rows: int = stack_service.MAX_READ_AT_ONCE

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        call_id = f"call-{uuid4()}"
        await self.case.record_call(self.context, name, arguments, call_id)
        return await execute(
            create_stack_tools(
                self.context,
                user_id=self.context.user_id,
                org_id=self.context.org_id,
                stack_id=self.stack_id,
                max_rows=self.max_rows,
            ),
            self.context,
            ToolCall(name, call_id, arguments),
            started_by=StartedBy.POLICY,
        )

    async def states(self) -> list[RowStatus]:
        async with self.case.database.as_user(self.case.scope) as conn:
            return [row.state for row in await stacks.rows(conn, self.stack_id, limit=100)]

    async def extraction(self) -> extractions.ExtractionRow:
        async with self.case.database.as_user(self.case.scope) as conn:
            (row,) = await stacks.rows(conn, self.stack_id, limit=2)
            assert row.extraction_id is not None
            return await extractions.get(conn, row.extraction_id)

    async def end_child(self, call_id: str, status: str, **columns: Any) -> ToolOutcome | None:
        """End the child runs of a call, and return the call's result."""
        sets = "".join(f", {name} = %s" for name in columns)
        query = f"update public.runs set status = %s, finished_at = now(){sets} where parent_run_id = %s"
        self.case.sql(query, status, *columns.values(), self.context.run_id)
        self.case.sql("update public.runs set status = 'running', attached = false where id = %s", self.context.run_id)
        async with self.case.database.as_user(self.case.scope) as conn:
            call = await tool_calls.find(conn, self.context.run_id, call_id)
        assert call is not None

        async def discard(*_: object) -> None:
            pass

        return await collect(self.context, STACK.create_tools(self.context), call, discard)


async def start(case: ExtractionCase, columns: str | None = None, task: str = "stack", **given: Any) -> StackRunCase:
    async with case.database.as_user(case.scope) as conn:
        stack_id = await stacks.add(conn, case.scope, f"Stack {uuid4()}")
        await stacks.add_documents(conn, case.scope, stack_id, [case.document_id])
        if columns is not None:
            await stack_service.define_columns(conn, case.scope, stack_id, parse_definitions(columns))
    return await start_on(case, stack_id, task, **given)


async def start_on(case: ExtractionCase, stack_id: UUID, task: str = "stack", **given: Any) -> StackRunCase:
    async with case.database.as_user(case.scope) as conn:
        run_id = await runs.add(
            conn,
            case.scope,
            id=uuid4(),
            agent="stack",
            task=task,
            task_input=given,
            subject=Subject(stack_id=stack_id),
            options=RunOptions(approval="auto"),
        )
        claimed = await runs.claim(conn, run_id)
    assert claimed is not None
    return StackRunCase(case, stack_id, run_context(case.database, case.scope, claimed))


async def test_row_with_values_is_located_and_completed(case):
    run = await start(case, "number,total:number")
    for outside in ({"unseen": 1}, {"number": {"part": 1}}, {"lines": [{"price": 1}]}):
        refused = await run.call("extract_row", document_id=str(case.document_id), values={"total": 10, **outside})
        assert refused.code == "no_such_column"
    saved = await run.call("extract_row", document_id=str(case.document_id), values={"number": "INV-7", "total": 10})
    assert saved.code == "stored", saved
    row = await run.extraction()
    assert row.status == "completed" and row.extracted_fields["total"] == 10
    assert row.evidence.keys() == {"number", "total"}
    again = await run.call("extract_row", document_id=str(case.document_id), values={"total": 11})
    assert again.code == "row_exists"
    wrong = await run.call("update_cell", document_id=str(case.document_id), column="total", value="ten")
    assert wrong.code == "schema_violation"
    missing = await run.call("update_cell", document_id=str(case.document_id), column="tax", value=1)
    assert missing.code == "no_such_column"
    changed = await run.call("update_cell", document_id=str(case.document_id), column="total", value=11)
    assert changed.code == "stored" and (await run.extraction()).status == "completed"
    (shown,) = (await run.call("get_table_state", with_values=True)).data["rows"]
    assert (shown["values"]["total"], shown["to_review"]) == (11, {"number": "not_found", "total": "not_found"})
    assert (await run.call("update_cell", document_id=str(case.document_id), column="total", value=None)).code
    assert "total" not in (await run.extraction()).extracted_fields
    assert await run.states() == [RowStatus.DONE]
    assert (await run.call("complete_table", summary="One row.")).code == "completed"
    async with case.database.as_user(case.scope) as conn:
        run_id = run.context.run_id
        first, second = await stacks.replaced_values(conn, run.stack_id, run_id, limit=9)
        assert [(one.old, one.new) for one in (first, second)] == [(10, 11), (11, None)]
        assert await stacks.replaced_values(conn, run.stack_id, run_id, limit=1) == [first]
        assert await stacks.replaced_values(conn, run.stack_id, run_id, limit=1, after=first.id) == [second]


async def test_documents_outside_the_stack_are_refused(case, database, clone, make_user):
    run = await start(case, "total:number")
    inside = str(case.document_id)
    assert (await run.call("get_document_text", document_id=inside)).code == "ok"
    async with document_with_pages(database, clone.owner_url, await make_user(), [INVOICE]) as other:
        other_stack = await start(other, "total:number")
        assert (await other_stack.call("get_document_text", document_id=str(other.document_id))).code == "ok"
        for outside in (str(other.document_id), str(uuid4())):
            for tool, arguments in (
                ("get_document_text", {}),
                ("extract_row", {}),
                ("extract_row", {"values": {"total": 1}}),
                ("update_cell", {"column": "total", "value": 1}),
                ("get_table_state", {}),
            ):
                refused = await run.call(tool, document_id=outside, **arguments)
                assert (refused.is_error, refused.code) == (True, "not_in_stack"), tool
        listed = await run.call("list_documents")
        assert [one["document_id"] for one in listed.data["documents"]] == [inside]


async def test_failed_row_keeps_its_reason_and_is_not_read_again_in_the_same_run(case):
    run = await start(case)
    assert (await run.call("extract_row")).code == "no_columns"
    assert (await run.call("complete_table", summary="Done.")).code == "no_columns"
    assert (await run.call("define_columns", columns=[{"name": "total", "type": "number"}])).code == "defined"
    missing = await run.call("complete_table", summary="Done.")
    assert missing.code == "rows_missing" and len(missing.data["missing"]) == 1
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    assert (child["task"], child["background"], child["approval"]) == ("extract", True, "auto")
    result = await run.end_child(child["parent_call_id"], "failed", error="Too slow.", error_code="deadline")
    assert result is not None and (result.data["read"], result.data["left"]) == (0, 0)
    assert [one["code"] for one in result.data["failed"]] == ["deadline"]
    assert await run.states() == [RowStatus.FAILED]
    assert (await run.call("extract_row")).code == "nothing_to_read"
    assert (await run.call("complete_table", summary="One failed.")).code == "completed"
    state = await run.call("get_table_state")
    assert [(one["code"], one["error"]) for one in state.data["failed"]] == [("deadline", "Too slow.")]


async def test_incomplete_row_is_read_again_once_in_each_run_and_keeps_what_a_person_set(case):
    run = await start(case, "number,total:number")
    (added,) = case.sql(
        """insert into public.extractions (org_id, document_id, created_by, schema_revid)
           select t.org_id, %s, t.created_by, v.id from public.stack_tables as t
           join public.schema_versions as v on v.schema_id = t.schema_id where t.stack_id = %s returning id""",
        case.document_id,
        run.stack_id,
    )
    ended = await replace(case, extraction_id=added["id"]).queue_run()
    case.sql("update public.runs set status = 'completed' where id = %s", ended)
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, added["id"], ("number",), "A person's", {}, {})
        await extractions.confirm(conn, added["id"], ("number",))
        (row,) = (await list_rows(conn, run.stack_id, TableQuery(), limit=9)).items
    assert (row.status, row.cells["total"]["status"]) == ("incomplete", "not_written")
    assert (await run.call("complete_table")).code == "rows_missing"
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    assert (child["extraction_id"], child["input"]) == (added["id"], {})
    result = await run.end_child(child["parent_call_id"], "completed")
    assert result is not None and result.data["incomplete"] == [str(case.document_id)]
    assert (result.data["read"], result.data["left"]) == (0, 0)
    again = await run.call("extract_row")
    assert (again.code, again.data) == ("nothing_to_read", {"incomplete": 1})
    done = await run.call("complete_table")
    assert (done.code, done.data["states"]) == ("completed", {"incomplete": 1})
    assert STACK.toolset.answer("complete_table", {}, done.data) is not None
    assert (await run.extraction()).extracted_fields == {"number": "A person's"}


async def test_changed_column_is_read_again_and_others_are_not(case):
    run = await start(case, "number,total:number")
    await run.call("extract_row", document_id=str(case.document_id), values={"number": "INV-7", "total": 10})
    columns = [{"name": "number"}, {"name": "total", "type": "number", "description": "With tax."}]
    assert (await run.call("define_columns", columns=columns)).code == "defined"
    assert await run.states() == [RowStatus.STALE]
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    assert child["input"] == {"fields": ["total"]}
    assert child["extraction_id"] == (await run.extraction()).id
    await run.end_child(child["parent_call_id"], "completed")
    case.sql("update public.extractions set status = 'completed' where id = %s", child["extraction_id"])
    await run.call("define_columns", columns=columns[1:])
    assert await run.states() == [RowStatus.DONE]
    assert (await run.extraction()).extracted_fields["number"] == "INV-7"


async def test_document_taken_out_of_the_stack_is_not_read_any_more(case):
    run = await start(case, "total:number")
    assert (await run.call("extract_row")).code == "awaiting_runs"
    async with case.database.as_user(case.scope) as conn:
        await stacks.remove_document(conn, run.stack_id, case.document_id)
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    assert (child["status"], child["error_code"]) == ("cancelled", "cancelled")


async def test_second_run_waits_and_a_deleted_document_leaves_the_table(case):
    run = await start(case, "total:number")
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    async with case.database.as_user(case.scope) as conn:
        second = await runs.add(
            conn,
            case.scope,
            id=uuid4(),
            agent="stack",
            task="stack",
            task_input={},
            subject=Subject(stack_id=run.stack_id),
        )
    (waits,) = case.sql("select private.is_blocked(r) as blocked from public.runs as r where id = %s", second)
    assert waits["blocked"]
    case.sql("update public.runs set attached = false where id = %s", run.context.run_id)
    case.sql("delete from public.documents where id = %s", case.document_id)
    assert await run.states() == []
    (parent,) = case.sql("select status from public.runs where id = %s", run.context.run_id)
    assert parent["status"] == "queued"
    result = await run.end_child(child["parent_call_id"], "completed")
    assert result is not None and (result.data["read"], result.data["left"]) == (0, 0)


@pytest.mark.parametrize(
    "columns",
    [
        [{"name": "a\u200b"}],
        [{"name": "a\n"}],
        [{"name": "total"}, {"name": "Total"}],
        [{"name": "total", "type": "money"}],
        [{"name": f"c{number}"} for number in range(201)],
        [],
    ],
)
async def test_columns_that_cannot_be_used_are_refused(case, columns):
    run = await start(case)
    refused = await run.call("define_columns", columns=columns)
    assert refused.is_error and refused.code in ("invalid", "invalid_path"), refused
    async with case.database.as_user(case.scope) as conn:
        assert (await stacks.get(conn, run.stack_id)).schema is None


async def set_by_person(run: StackRunCase, path: tuple[str, ...], value: Any) -> None:
    extraction = await run.extraction()
    async with run.case.database.as_user(run.case.scope) as conn:
        await extractions.update_field(conn, extraction.id, path, value, {}, {})


async def test_row_whose_second_reading_failed_is_continued_with_the_values_of_a_person(case):
    run = await start(case, "number,total:number")
    document = str(case.document_id)
    await run.call("extract_row", document_id=document, values={"number": "INV-7", "total": 10})
    await set_by_person(run, ("number",), "INV-8")
    await run.call(
        "define_columns", columns=[{"name": "number"}, {"name": "total", "type": "number", "description": "Net."}]
    )
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    await run.end_child(child["parent_call_id"], "failed", error="Too slow.", error_code="deadline")
    assert await run.states() == [RowStatus.FAILED]
    # A new extraction would hide the values of the old one.
    refused = await run.call("extract_row", document_id=document, values={"total": 11})
    assert refused.code == "row_exists"
    assert (await run.call("extract_row", document_id=document)).code == "awaiting_runs"
    subjects = case.sql("select extraction_id from public.runs where parent_run_id = %s", run.context.run_id)
    assert {one["extraction_id"] for one in subjects} == {child["extraction_id"]}
    assert (await run.extraction()).extracted_fields == {"number": "INV-8", "total": 10}


async def test_cancelled_child_does_not_keep_a_run_from_ending_and_its_row_is_read_by_the_next_run(case):
    run = await start(case, "total:number")
    document = str(case.document_id)
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    await run.end_child(child["parent_call_id"], "cancelled", error="Cancelled.", error_code="cancelled")
    assert await run.states() == [RowStatus.WAITING]
    assert (await run.call("extract_row")).code == "nothing_to_read"
    assert (await run.call("complete_table", summary="One is left.")).code == "completed"
    case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", run.context.run_id)
    second = await start_on(case, run.stack_id)
    assert (await second.call("complete_table", summary="Done.")).code == "rows_missing"
    # Its extraction failed before it had values, so the agent may save the row itself.
    saved = await second.call("extract_row", document_id=document, values={"total": 10})
    assert saved.code == "stored", saved
    assert await run.states() == [RowStatus.DONE]


async def test_row_at_work_is_neither_moved_to_other_columns_nor_read_twice(case):
    run = await start(case, "total:number")
    document = str(case.document_id)
    await run.call("extract_row", document_id=document, values={"total": 10})
    extraction = await run.extraction()
    await replace(case, extraction_id=extraction.id).queue_run()
    await run.call("define_columns", columns=[{"name": "total", "type": "number", "description": "Net."}])
    refused = await run.call("extract_row", document_id=document)
    assert (refused.is_error, refused.code) == (True, "conflict")
    assert (await run.extraction()).schema_revid == extraction.schema_revid
    assert (await run.call("complete_table", summary="Done.")).code == "completed"


async def test_columns_that_need_no_reading_reach_the_rows_that_a_call_has_left(case):
    run = replace(await start(case, "number,total:number"), max_rows=1)
    async with document_with_pages(case.database, case.owner_url, case.scope, [INVOICE]) as other:
        async with case.database.as_user(case.scope) as conn:
            await stacks.add_documents(conn, case.scope, run.stack_id, [other.document_id])
        for document in (case.document_id, other.document_id):
            await run.call("extract_row", document_id=str(document), values={"number": "INV-7", "total": 10})
        async with case.database.as_user(case.scope) as conn:
            stack = await stacks.get(conn, run.stack_id)
            assert stack.schema is not None and stack.schema.schema is not None
            rule = {"required_if": {"path": "number", "if": {"path": "total", "equals": 10}}}
            schema = {**stack.schema.schema, "x-fieldmark": {"rules": [rule]}}
            await schemas.update(conn, stack.schema.id, schema=schema)
        read = await run.call("extract_row")
        assert read.data is not None, read
        assert (read.code, read.data["read"], read.data["left"]) == ("read", 0, 1)
        assert (await run.call("extract_row")).code == "nothing_to_read"
        assert await run.states() == [RowStatus.DONE, RowStatus.DONE]


async def test_document_deleted_while_a_call_starts_keeps_no_other_row_from_being_read(case):
    run = await start(case, "total:number")
    other = document_with_pages(case.database, case.owner_url, case.scope, [INVOICE])
    async with other as deleted, await psycopg.AsyncConnection.connect(case.owner_url) as conn:
        async with case.database.as_user(case.scope) as own:
            await stacks.add_documents(own, case.scope, run.stack_id, [deleted.document_id])
        await conn.execute("delete from public.documents where id = %s", (deleted.document_id,))
        call = asyncio.create_task(run.call("extract_row"))
        blocked = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while not call.done() and not case.sql(blocked):
            await asyncio.sleep(0.02)
        await conn.commit()
        assert (await call).code == "awaiting_runs"
    (child,) = case.sql("select document_id from public.runs where parent_run_id = %s", run.context.run_id)
    assert child["document_id"] == case.document_id


async def test_copy_of_a_document_gets_no_row(case):
    run = await start(case, "total:number")
    async with document_with_pages(case.database, case.owner_url, case.scope, [INVOICE]) as copy:
        async with case.database.as_user(case.scope) as conn:
            await stacks.add_documents(conn, case.scope, run.stack_id, [copy.document_id])
        case.sql("update public.documents set content_sha256 = %s", "0" * 64)
        assert await run.states() == [RowStatus.WAITING, RowStatus.DUPLICATE]
        for values in ({}, {"values": {"total": 10}}):
            assert (await run.call("extract_row", document_id=str(copy.document_id), **values)).code == "row_exists"
        assert case.sql("select id from public.extractions where document_id = %s", copy.document_id) in (
            [],
            [{"id": copy.extraction_id}],
        )


async def test_state_of_a_table_with_long_columns_fits_into_a_result_with_all_columns(case):
    run = await start(case)
    columns = [{"name": f"c{number}", "description": "ä" * 350} for number in range(11)]
    assert (await run.call("define_columns", columns=columns)).code == "defined"
    state = await run.call("get_table_state", with_values=True)
    assert [one["name"] for one in state.data["columns"]] == [one["name"] for one in columns]
    # A person may edit the schema beyond the limit of define_columns.
    fields = {f"c{number}": {"type": "string", "description": "d" * 1_500} for number in range(100)}
    async with case.database.as_user(case.scope) as conn:
        stack = await stacks.get(conn, run.stack_id)
        assert stack.schema is not None
        await schemas.update(conn, stack.schema.id, schema={"type": "object", "properties": fields})
    state = await run.call("get_table_state", with_values=True)
    assert len(state.data["columns"]) == 100 and len(state.text.encode()) <= MAX_RESULT_BYTES


async def test_later_documents_are_found_by_name_and_each_part_of_a_table_says_where_the_next_begins(case):
    run = await start(case, "total:number")
    documents = [LibraryDocument(filename=f"{number}.pdf") for number in range(120)]
    insert_documents(case.owner_url, case.scope, documents)
    async with case.database.as_user(case.scope) as conn:
        await stacks.add_documents(conn, case.scope, run.stack_id, [one.id for one in documents])
        task = STACK.tasks["stack_correct"]
        _, text = await task.briefing(conn, run.context, task.input.model_validate({"message": "…"}))
    table = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert len(table["documents"]) + table["documents_not_shown"] == 121
    named = (await run.call("list_documents", name_search="119.PDF")).data["documents"]
    assert [one["document_id"] for one in named] == [str(documents[-1].id)]
    for tool, pages in (("list_documents", [100, 21]), ("get_table_state", [20] * 6 + [1])):
        offset, read = 0, []
        while offset is not None:
            arguments = {"with_values": True} if tool == "get_table_state" else {}
            page = await run.call(tool, offset=offset, **arguments)
            read.append(len(page.data["rows" if arguments else "documents"]))
            offset = page.data.get("offset")
            assert (offset is not None) == (f"offset {offset}" in page.text), page.text
        assert read == pages
    one = await run.call("get_table_state", document_id=str(case.document_id))
    assert (len(one.data["rows"]), "offset" in one.data) == (1, False)


@pytest.mark.parametrize(
    ("approvers", "second_person", "role", "is_sample"),
    [
        ("members", False, "member", True),
        ("members", True, "owner", False),
        ("owners", False, "owner", True),
        ("owners", False, "member", False),
    ],
)
async def test_rows_saved_by_the_agent_are_covered_by_approved_columns_unless_others_must_decide(
    case, approvers, second_person, role, is_sample
):
    run = await start(case, "total:number")
    tools = STACK.create_tools(run.context)
    covered = tools.actions["extract_row"].is_covered
    assert covered is not None
    saves = tools.check("extract_row", {"document_id": str(case.document_id), "values": {"total": 10}})
    reads = tools.check("extract_row", {})
    approve = "update public.tool_calls set approved_by = 'person' where run_id = %s and tool = %s"

    async def is_covered() -> tuple[bool, bool]:
        async with case.database.as_user(case.scope) as conn:
            return await covered(conn, saves), await covered(conn, reads)

    await run.call("extract_row", document_id=str(case.document_id), values={"total": 10})
    await run.call("update_cell", document_id=str(case.document_id), column="total", value=11)
    case.sql(approve, run.context.run_id, "update_cell")
    assert await is_covered() == (False, False)  # a person who approves one value approves no other
    await run.call("define_columns", columns=[{"name": "total", "type": "number"}])
    case.sql(approve, run.context.run_id, "define_columns")
    change = "update public.organisations set approvers = %s, second_person = %s where id = %s"
    case.sql(change, approvers, second_person, case.scope.org_id)
    case.add_member("owner")
    case.sql("update public.memberships set role = %s where user_id = %s", role, case.scope.user_id)
    assert await is_covered() == (is_sample, False)


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ("total:number", RowStatus.DONE),
        ("total:number,vendor.name,number,items[].price:number", RowStatus.DONE),
        ("number,items[].name,total:number", RowStatus.DONE),
        ("number,total:number,vendor.name,items[].price:number,tax:number", RowStatus.STALE),
        ("number,total:text,vendor.name", RowStatus.STALE),
        ("number,vendor.city", RowStatus.STALE),
        ("number,vendor.name,items[].name,items[].tax", RowStatus.STALE),
    ],
)
async def test_row_is_stale_if_a_column_is_new_or_changed_but_not_if_one_is_dropped(case, columns, state):
    run = await start(case, "number,total:number,vendor.name,items[].price:number,items[].name")
    saved = await run.call("extract_row", document_id=str(case.document_id), values={"number": "INV-7", "total": 10})
    assert saved.code == "stored", saved
    async with case.database.as_user(case.scope) as conn:
        await stack_service.define_columns(conn, case.scope, run.stack_id, parse_definitions(columns))
        (row,) = await stacks.rows(conn, run.stack_id, limit=2)
        (shown,) = (await list_rows(conn, run.stack_id, TableQuery(), limit=2)).items
        stale = [cell for cell in shown.cells.values() if cell["status"] == FieldStatus.STALE]
        assert bool(stale) is (state is RowStatus.STALE)  # the cells agree with the row
        to_read = await stacks.rows_to_read(conn, run.stack_id, run.context.run_id, 9)
        assert (row.state, len(to_read)) == (state, int(state is RowStatus.STALE))
        described = [one.model_copy(update={"description": "Printed."}) for one in parse_definitions(columns)]
        await stack_service.define_columns(conn, case.scope, run.stack_id, described)
        assert [row.state for row in await stacks.rows(conn, run.stack_id, limit=2)] == [RowStatus.STALE]


async def test_value_of_another_unit_or_order_than_printed_is_unclear_with_its_reason(case):
    run = await start(case, "load:number:kg,rest:number:kg,total:number,currency:currency,made:date,due:date")
    async with document_with_pages(
        case.database, case.owner_url, case.scope, ["Load 1500 g\nRest 7 lb\nTotal 9 EUR\n01/02/2024 03/04/2024"]
    ) as one:
        async with case.database.as_user(case.scope) as conn:
            await stacks.add_documents(conn, case.scope, run.stack_id, [one.document_id])
        dates = {"made": "2024-02-01", "due": "2024-03-04"}
        values = {"load": 1.5, "rest": 7, "total": 9, "currency": "EUR", **dates}
        saved = await run.call("extract_row", document_id=str(one.document_id), values=values)
        assert saved.code == "stored", saved
        async with case.database.as_user(case.scope) as conn:
            query = TableQuery(row_statuses=(RowStatus.DONE,))
            page = await list_rows(conn, run.stack_id, query, limit=9, with_totals=True)
    (row,) = page.items
    fields = ("status", "reason", "currency", "quote")
    shown = {name: tuple(cell[field] for field in fields) for name, cell in row.cells.items()}
    assert shown == {
        "load": ("found", None, None, "1500"),
        "rest": ("unclear", "ambiguous_number", None, "7"),
        "total": ("found", None, "EUR", "9"),
        "currency": ("found", None, None, "EUR"),
        "made": ("found", None, None, "01/02/2024"),
        "due": ("unclear", "ambiguous_date", None, "03/04/2024"),
    }
    assert [(one.column, one.currency) for one in page.totals] == [("load", None), ("rest", None), ("total", "EUR")]
    assert [column.unit for column in page.columns] == ["kg", "kg", None, None, None, None]


STATES_OF_ROWS = {
    "reading": ("in_progress", "running", None, RowStatus.RUNNING),
    "queued": ("in_progress", "queued", None, RowStatus.WAITING),
    "to approve": ("in_progress", "awaiting_approval", None, RowStatus.AWAITING_APPROVAL),
    "failed": ("in_progress", "failed", "deadline", RowStatus.FAILED),
    "cancelled": ("in_progress", "cancelled", "cancelled", RowStatus.WAITING),
    "incomplete": ("in_progress", "completed", None, RowStatus.INCOMPLETE),
    "correction queued": ("completed", "queued", None, RowStatus.DONE),
    "correction failed": ("completed", "failed", None, RowStatus.DONE),
    "suggested": ("completed", "proposed", None, RowStatus.WAITING),
}


@pytest.mark.parametrize("name", STATES_OF_ROWS)
async def test_state_of_a_row_follows_its_extraction_and_newest_run(case, name):
    status, run_status, code, expected = STATES_OF_ROWS[name]
    run = await start(case, "total:number")
    (added,) = case.sql(
        """insert into public.extractions (org_id, document_id, created_by, schema_revid, status)
           select t.org_id, %s, t.created_by, v.id, %s from public.stack_tables as t
           join public.schema_versions as v on v.schema_id = t.schema_id where t.stack_id = %s returning id""",
        case.document_id,
        status,
        run.stack_id,
    )
    newest = await replace(case, extraction_id=added["id"]).queue_run("correct" if status == "completed" else "extract")
    if run_status == "proposed":
        case.sql("update public.runs set status = 'completed' where id = %s", newest)
        case.sql("update public.extractions set run_id = %s where id = %s", newest, added["id"])
        case.sql(
            """insert into public.auto_creations (document_id, org_id, created_by, run_id, status)
               select document_id, org_id, created_by, id, 'proposed' from public.runs where id = %s""",
            newest,
        )
    elif run_status in ("failed", "cancelled"):
        case.sql(
            "update public.runs set status = %s, error = 'Ended.', error_code = %s where id = %s",
            run_status,
            code or "internal",
            newest,
        )
    else:
        case.sql("update public.runs set status = %s, waiting_call = 'c' where id = %s", run_status, newest)
    async with case.database.as_user(case.scope) as conn:
        (row,) = await stacks.rows(conn, run.stack_id, limit=2)
    assert (row.state, row.error_code) == (expected, code)


async def test_deleting_a_stack_cancels_the_runs_that_read_its_rows(case):
    run = await start(case, "total:number")
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    async with case.database.as_user(case.scope) as conn:
        await stacks.remove(conn, run.stack_id)
    assert case.sql("select from public.runs where id = %s", child["id"]) == []
    (extraction,) = case.sql("select status from public.extractions where id = %s", child["extraction_id"])
    assert extraction["status"] == "failed"  # otherwise it would be in progress forever


async def test_row_that_failed_is_continued_with_a_value_that_a_person_confirmed(case):
    run = await start(case, "number,total:number")
    (added,) = case.sql(
        """insert into public.extractions (org_id, document_id, created_by, schema_revid, status, extracted_fields)
           select t.org_id, %s, t.created_by, v.id, 'in_progress', '{"number": "INV-7"}' from public.stack_tables as t
           join public.schema_versions as v on v.schema_id = t.schema_id where t.stack_id = %s returning id""",
        case.document_id,
        run.stack_id,
    )
    newest = await replace(case, extraction_id=added["id"]).queue_run()
    case.sql(
        "update public.runs set status = 'failed', error = 'Ended.', error_code = 'internal' where id = %s", newest
    )
    assert (await run.call("get_table_state")).data["states"] == {"failed": 1}
    async with case.database.as_user(case.scope) as conn:
        await extractions.confirm(conn, added["id"], ("number",))
    # A new extraction would hide it.
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select extraction_id from public.runs where parent_run_id = %s", run.context.run_id)
    assert child["extraction_id"] == added["id"]


@pytest.mark.parametrize("code", ["max_cost", "deadline", None])
async def test_row_that_was_not_read_to_its_end_is_read_as_a_whole_after_the_columns_changed(case, code):
    run = await start(case, "number,total:number")
    assert (await run.call("extract_row")).code == "awaiting_runs"
    (child,) = case.sql("select * from public.runs where parent_run_id = %s", run.context.run_id)
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, child["extraction_id"], ("number",), "INV-8", {}, {})
    ended = {} if code is None else {"error": "Ended.", "error_code": code}
    await run.end_child(child["parent_call_id"], "failed" if ended else "completed", **ended)
    case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", run.context.run_id)
    second = await start_on(case, run.stack_id)
    columns = [{"name": "number"}, {"name": "total", "type": "number"}, {"name": "vendor"}]
    assert (await second.call("define_columns", columns=columns)).code == "defined"
    assert (await second.call("extract_row")).code == "awaiting_runs"
    (again,) = case.sql("select * from public.runs where parent_run_id = %s", second.context.run_id)
    assert (again["extraction_id"], again["input"]) == (child["extraction_id"], {})
