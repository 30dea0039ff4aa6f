"""Tool calls execute once, in one transaction: a repeated call returns the recorded result, a stale worker is refused,
and a failed call changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import JsonValue

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.domain.events import ChangedEvent, ChangedField
from fieldmark.domain.statuses import CallStatus
from fieldmark.errors import Fenced
from fieldmark.stores import extractions, tool_calls
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.ledger import StartedBy, ToolCall, execute
from fieldmark.tools.toolset import RunTools, ToolEffect, ToolInput, ToolResult, Toolset, hash_arguments, tool

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 1.0}


@pytest.fixture
async def context(case):
    return await case.context()


async def call(context, name="update_field", call_id: str | None = "call-1", arguments=TOTAL):
    return await execute(
        EXTRACTION.create_tools(context), context, ToolCall(name, call_id, arguments), started_by=StartedBy.POLICY
    )


async def test_approved_call_is_written_and_recorded(case, context):
    await case.record_call(context, "update_field", TOTAL, "call-1")
    answer = await call(context)
    (entry,) = case.ledger(context.run_id)
    assert (answer.code, answer.data, answer.is_error) == ("stored", {"version": 1}, False)
    assert answer.text == f'{answer.sentence}\n{{"code":"stored","data":{{"version":1}}}}'
    assert (entry["status"], entry["result"]) == ("done", answer.sentence) and entry["finished_at"]
    assert (entry["code"], entry["data"]) == (answer.code, answer.data)
    assert case.extraction()["extracted_fields"] == {"total": 10}
    (row,) = case.journal()
    assert (row["actor"], row["run_id"], row["call_id"]) == ("agent", context.run_id, "call-1")
    assert (row["created_by"], row["path"], row["old"], row["new"]) == (case.scope.user_id, ["total"], None, 10)
    (event,) = case.events(context.run_id)
    assert event["version"] == 1 and [(one["path"], one["value"]) for one in event["changed"]] == [("total", 10)]


async def test_call_runs_only_with_approved_arguments(case, context):
    assert (await call(context)).code == "not_approved"
    assert case.ledger(context.run_id) == []
    await case.record_call(context, "update_field", TOTAL, "call-1")
    for other in ({"path": "tax"}, {"value": 2}, {"confidence": 0.5}):
        assert (await call(context, arguments=TOTAL | other)).code == "not_approved"
    assert (await call(context, call_id=None)).code == "not_approved"
    assert case.extraction()["version"] == 0
    assert not (await call(context)).is_error  # the approved one itself still may


async def test_approval_for_one_tool_allows_no_other(case, context):
    arguments = {"path": "total"}
    await case.set_fields({"total": 1})
    await case.record_call(context, "get_current_extraction", arguments, "call-1")
    assert (await call(context, "remove_field", arguments=arguments)).code == "not_approved"
    assert case.extraction()["extracted_fields"] == {"total": 1}


async def test_refused_call_does_not_run(case, context):
    async with case.database.as_user(case.scope) as conn:
        await tool_calls.record(
            conn,
            run_id=context.run_id,
            fencing_token=context.fencing_token,
            org_id=case.scope.org_id,
            call_id="call-1",
            tool="update_field",
            arguments=TOTAL,
            arguments_hash=hash_arguments(TOTAL),
            status=CallStatus.REFUSED,
            reason="No.",
        )
    assert (await call(context)).code == "refused" and case.extraction()["version"] == 0
    assert case.ledger(context.run_id)[0]["status"] == "refused"


async def test_approval_of_another_run_allows_nothing(case, context):
    other = await case.context()
    await case.record_call(other, "update_field", TOTAL, "call-1")
    assert (await call(context)).code == "not_approved" and case.extraction()["version"] == 0
    await case.record_call(context, "update_field", TOTAL | {"path": "tax"}, "call-1")
    assert not (await call(other)).is_error
    assert not (await call(context, arguments=TOTAL | {"path": "tax"})).is_error
    assert case.extraction()["version"] == 2


async def test_repeated_call_returns_its_recorded_result(case, context):
    await case.record_call(context, "update_field", TOTAL, "call-1")
    first = await call(context)
    case.sql("update public.extractions set extracted_fields = '{}' where id = %s", case.extraction_id)
    assert await call(context) == first
    assert case.extraction()["extracted_fields"] == {} and len(case.events(context.run_id)) == 1


async def test_repeated_failed_call_fails_without_running(case, context):
    gone = {"path": "total"}
    await case.record_call(context, "remove_field", gone, "call-1")
    first = await call(context, "remove_field", arguments=gone)
    assert first.is_error
    await case.set_fields({"total": 1})  # now it could
    assert await call(context, "remove_field", arguments=gone) == first
    assert case.extraction()["extracted_fields"] == {"total": 1}


async def test_concurrent_identical_calls_write_once(case, context):
    await case.set_fields({"items": [1, 2, 3, 4, 5]})
    first = {"path": "items[0]"}
    await case.record_call(context, "remove_field", first, "call-1")
    answers = await asyncio.gather(*[call(context, "remove_field", arguments=first) for _ in range(4)])
    assert [(answer.code, answer.data) for answer in answers] == [("removed", {"version": 2})] * 4
    assert case.extraction()["extracted_fields"] == {"items": [2, 3, 4, 5]}


@pytest.mark.parametrize("name", ["update_field", "get_document_text"])
async def test_worker_with_an_old_token_can_do_nothing(case, context, name):
    await case.record_call(context, "update_field", TOTAL, "call-1")
    newer = await case.context(context.run_id)
    arguments = TOTAL if name == "update_field" else {}
    with pytest.raises(Fenced):
        await call(context, name, arguments=arguments)
    assert case.extraction()["version"] == 0
    assert not (await call(newer, name, arguments=arguments)).is_error


async def test_worker_with_an_old_token_records_no_failure(case, context):
    gone = {"path": "total"}
    await case.record_call(context, "remove_field", gone, "call-1")
    await case.context(context.run_id)
    with pytest.raises(Fenced):
        await call(context, "remove_field", arguments=gone)
    assert case.ledger(context.run_id)[0]["status"] == "approved"


@pytest.mark.parametrize("status", ["completed", "queued"])
async def test_only_a_running_run_acts(case, context, status):
    await case.record_call(context, "update_field", TOTAL, "call-1")
    case.sql("update public.runs set status = %s where id = %s", status, context.run_id)
    with pytest.raises(Fenced):
        await call(context)
    assert case.extraction()["version"] == 0


async def test_other_user_with_the_same_ids_gets_nothing(case, context, make_user):
    await case.record_call(context, "update_field", TOTAL, "call-1")
    stranger = await make_user()
    elsewhere = replace(context, scope=stranger)
    for name in ("update_field", "get_document_text"):
        with pytest.raises(Fenced):
            await call(elsewhere, name, arguments=TOTAL if name == "update_field" else {})
    assert case.extraction()["version"] == 0


INTERNAL = "Internal error. Calling again will not help."


class Nothing(ToolInput):
    """Nothing."""


def tools(context, failing: Exception | None) -> RunTools:
    class Failing:
        @tool(Nothing, lambda args: "Writing", ToolEffect.WRITE)
        async def write_and_fail(self, conn, args) -> ToolResult:
            return await write(conn)

    async def write(conn) -> ToolResult:
        stored = await extractions.update_field(conn, context.extraction_id, ["half"], "done", {}, {})
        if failing is not None:
            raise failing
        changed = ChangedField(path="half", value="done", confidence=None, evidence=None)
        return ToolResult(str(stored.value), events=[ChangedEvent(changed=[changed], version=1)])

    return Toolset(Failing).bind(Failing())


async def write_and(case, context, failing: Exception | None):
    await case.record_call(context, "write_and_fail", {}, "call-1")
    return await execute(
        tools(context, failing), context, ToolCall("write_and_fail", "call-1", {}), started_by=StartedBy.POLICY
    )


async def test_successful_tool_call_is_one_transaction(case, context):
    assert not (await write_and(case, context, None)).is_error
    assert case.extraction()["extracted_fields"] == {"half": "done"} and len(case.events(context.run_id)) == 1


@pytest.mark.parametrize(
    ("failing", "message", "code", "data"),
    [
        (ModelRetry("Fix it."), "Fix it.", "invalid", None),
        (ModelRetry("Fix it.", "bent", {"n": 1}), "Fix it.", "bent", {"n": 1}),
        (ToolFailed("It is so."), "It is so. Calling again will not help.", "failed", None),
        (RuntimeError("postgresql://app:secret@db"), INTERNAL, "internal", None),
    ],
    ids=["retry", "data", "failed", "surprise"],
)
async def test_failing_tool_leaves_only_its_recorded_result(case, context, failing, message, code, data):
    answer = await write_and(case, context, failing)
    assert (answer.sentence, answer.code, answer.data, answer.is_error) == (message, code, data, True)
    assert case.extraction()["version"] == 0 and case.journal() == [] and case.events(context.run_id) == []
    (entry,) = case.ledger(context.run_id)
    assert (entry["status"], entry["result"], entry["code"], entry["data"]) == ("failed", message, code, data)


async def test_lost_connection_records_nothing(case, context):
    await case.record_call(context, "write_and_fail", {}, "call-1")
    with pytest.raises(asyncio.CancelledError):
        await execute(
            tools(context, asyncio.CancelledError()),
            context,
            ToolCall("write_and_fail", "call-1", {}),
            started_by=StartedBy.POLICY,
        )
    assert case.ledger(context.run_id)[0]["status"] == "approved" and case.extraction()["version"] == 0


def test_unknown_tool_returns_the_known_tools():
    with pytest.raises(ModelRetry, match=r"There is no tool 'drop'\. There are: get_document_text, "):
        EXTRACTION.toolset.check("drop", {})


def test_all_invalid_arguments_are_reported_together():
    with pytest.raises(ModelRetry) as refusal:
        EXTRACTION.toolset.check("update_field", {"path": "", "confidence": 7, "more": 1})
    for said in (
        "path: ",
        "value: Field required.",
        "confidence: ",
        "more: there is no such argument.",
        "are: path, value,",
    ):
        assert said in str(refusal.value)


@pytest.mark.parametrize("confidence", [7, -1, "0.9", True, float("nan"), float("inf"), [1]])
def test_confidence_must_be_between_0_and_1(confidence):
    with pytest.raises(ModelRetry):
        EXTRACTION.toolset.check("update_field", TOTAL | {"confidence": confidence})


@pytest.mark.parametrize("name", EXTRACTION.toolset.tools)
def test_no_tool_has_tenant_user_or_document_arguments(name):
    schema = EXTRACTION.toolset.tools[name].input.model_json_schema()
    assert schema["additionalProperties"] is False
    assert not set(schema["properties"]) & {"org_id", "user_id", "document_id", "extraction_id", "run_id"}
    assert EXTRACTION.toolset.tools[name].description


def test_equal_arguments_have_equal_hashes():
    one: JsonValue = {"b": [1, {"d": 1, "c": 2}], "a": "ü"}
    same: JsonValue = {"a": "ü", "b": [1, {"c": 2, "d": 1}]}
    assert hash_arguments({"v": one}) == hash_arguments({"v": same}) != hash_arguments({"v": {**same, "a": "u"}})
    assert len({hash_arguments({"v": v}) for v in (1, "1", True, None, [1], {"1": 1}, "", " ")}) == 8


class CiteDocument(ToolInput):
    """Cite a document."""

    document_id: str
    quote: str | None = None
    citation: int = 0


class CitingTools:
    @tool(CiteDocument, lambda args: "Citing")
    async def cite(self, conn, args): ...


def test_other_names_of_arguments_are_accepted_and_not_shown():
    toolset = Toolset(CitingTools)
    assert list(toolset.tools["cite"].input_schema["properties"]) == ["document_id", "quote", "citation"]
    own = toolset.check("cite", {"document_id": "a", "quote": "b", "citation": 1})
    assert own == toolset.check("cite", {"doc_id": "a", "cited_text": "b", "citation_number": 1})
    for wrong in ({"document_id": "a", "doc_id": "b"}, {"docid": "a"}, {}):
        with pytest.raises(ModelRetry):
            toolset.check("cite", wrong)


def test_schema_of_a_tool_is_built_once() -> None:
    (first, second) = (EXTRACTION.toolset.tools["extract_fields"].input_schema for _ in range(2))
    assert first is second
