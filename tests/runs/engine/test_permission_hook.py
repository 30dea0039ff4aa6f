"""The permission hook allows, records and refuses calls. A call without its approval ends the run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.db.pool import Database
from fieldmark.errors import Fenced
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.permission_hook import ApprovalPolicy, PermissionHook
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.lifecycle.decisions import ApprovalDecision, decide
from fieldmark.runs.message_parts import BlockStarted, MessageStarted, MessageStopped
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import ToolOutcome

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 1, "confidence": 1.0}
UPDATE = "mcp__fieldmark__update_field"


async def ask(
    hook: PermissionHook, name: str, arguments: dict, call_id: str | None = "call-1"
) -> tuple[str, str | None]:
    hook_input = {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": arguments}
    output = (await hook(hook_input, call_id, {}))["hookSpecificOutput"]
    return output["permissionDecision"], output.get("permissionDecisionReason")


@pytest.fixture
async def context(case) -> RunContext:
    return await case.context()


@pytest.fixture
def hook(context) -> PermissionHook:
    return PermissionHook(EXTRACTION.create_tools(context), context)


@pytest.fixture
def calls(hook) -> ToolExecutor:
    return ToolExecutor(hook)


async def test_read_is_allowed_and_not_in_the_ledger(case, hook, context):
    assert await ask(hook, "mcp__fieldmark__get_document_text", {}) == ("allow", None)
    assert hook.take_allowed("call-1", "get_document_text", {}) == "call-1" and case.ledger(context.run_id) == []


async def test_write_is_allowed_and_recorded_with_its_approver(case, hook, context):
    assert await ask(hook, UPDATE, TOTAL) == ("allow", None)
    (entry,) = case.ledger(context.run_id)
    assert (entry["id"], entry["tool"], entry["arguments"]) == ("call-1", "update_field", TOTAL)
    assert (entry["status"], entry["approved_by"], entry["reason"]) == ("approved", "policy", None)


@pytest.mark.parametrize("arguments", [TOTAL | {"confidence": 7}, TOTAL | {"value": "a\0b"}, {}])
async def test_invalid_write_is_refused_with_a_reason_for_the_model(case, hook, context, arguments):
    decision, reason = await ask(hook, UPDATE, arguments)
    (entry,) = case.ledger(context.run_id)
    assert decision == "deny"
    assert (entry["status"], entry["approved_by"]) == ("refused", None)
    assert reason == f'{entry["reason"]}\n{{"code":"invalid"}}'
    assert hook.take_allowed("call-1", "update_field", TOTAL) is None


@pytest.mark.parametrize("name", ["Read", "update_field", "mcp__fieldmark__drop", "mcp__other__update_field"])
async def test_undeclared_tool_is_denied(case, hook, context, name):
    assert (await ask(hook, name, TOTAL))[0] == "deny"
    assert hook.take_allowed("call-1", "update_field", TOTAL) is None and case.ledger(context.run_id) == []


READ, UNKNOWN = "mcp__fieldmark__get_document_text", "mcp__fieldmark__drop"


@pytest.mark.parametrize(
    ("tools", "decisions"),
    [
        ([UPDATE], ["defer"]),
        ([READ, READ, UPDATE], ["allow", "allow", "defer"]),
        ([UPDATE, READ], ["deny", "allow"]),
        ([UPDATE, UPDATE], ["deny", "deny"]),
        ([UNKNOWN, UPDATE], ["deny", "deny"]),
    ],
    ids=["alone", "after reads", "before a read", "with another", "after an unknown tool"],
)
async def test_call_that_asks_a_person_is_the_last_of_its_message_after_reads(case, context, tools, decisions):
    hook = PermissionHook(EXTRACTION.create_tools(context), context, ApprovalPolicy("ask"))
    blocks = [BlockStarted(f"call-{number}") for number in range(len(tools))]
    for part in (MessageStarted("m", None), *blocks, MessageStopped()):
        hook.calls.on_part(part)
    decided: list[str] = []
    for block, tool in zip(blocks, tools, strict=True):
        decided.append((await ask(hook, tool, {} if tool == READ else TOTAL, block.call_id))[0])
        if tool == READ:
            hook.outcomes[str(block.call_id)] = ToolOutcome("Text.", "read")
    statuses = [entry["status"] for entry in case.ledger(context.run_id)]
    waits = "defer" in decisions
    assert decided == decisions and statuses == ["pending" if waits else "refused"] * tools.count(UPDATE)
    assert case.state(context.run_id)["status"] == ("awaiting_approval" if waits else "running")


async def test_write_without_a_call_id_is_denied(case, hook, context):
    assert (await ask(hook, UPDATE, TOTAL, None))[0] == "deny"
    assert hook.take_allowed("call-1", "update_field", TOTAL) is None and case.ledger(context.run_id) == []


@pytest.mark.parametrize("call_id", ["", "x" * 4000, "a\0b", "\ud800", "call-1"])
async def test_each_call_has_an_id_of_its_own_in_the_ledger(case, hook, context, call_id):
    other = TOTAL | {"value": 11}
    for arguments in (TOTAL, other, other):
        assert (await ask(hook, UPDATE, arguments, call_id))[0] == "allow"
    ids = [entry["id"] for entry in case.ledger(context.run_id)]
    assert len({*ids}) == 3 and (ids[0] == call_id) is (call_id == "call-1")
    # Calls with one id are taken by their arguments, each once before one is taken again.
    taken = [hook.take_allowed(call_id, "update_field", one) for one in (other, TOTAL, other, TOTAL)]
    assert taken == [ids[1], ids[0], ids[2], ids[0]]


async def test_call_is_denied_if_the_hook_fails(case, clone):
    context = await case.context()
    async with Database(clone.app_url, size=2) as closed:
        pass
    context = replace(context, database=closed)
    hook = PermissionHook(EXTRACTION.create_tools(context), context)
    assert (await ask(hook, UPDATE, TOTAL))[0] == "deny"
    assert hook.take_allowed("call-1", "update_field", TOTAL) is None


@pytest.mark.parametrize("call_id", [None, "toolu_forged"])
async def test_call_with_missing_or_forged_id_ends_the_run(case, hook, calls, call_id):
    await ask(hook, UPDATE, TOTAL)
    answer = await calls("get_document_text", call_id, {})
    assert answer.is_error and answer.code == "ended"
    with pytest.raises(SandboxViolation):
        calls.check()
    assert (await calls("update_field", "call-1", TOTAL)).is_error  # later calls are refused too
    assert case.extraction()["version"] == 0


async def test_call_fails_if_the_run_is_lost_before_it_runs(case, hook, calls, context):
    await ask(hook, UPDATE, TOTAL)
    case.sql("update public.runs set fencing_token = fencing_token + 1 where id = %s", context.run_id)
    assert (await calls("update_field", "call-1", TOTAL)).is_error
    with pytest.raises(Fenced):
        calls.check()


async def test_events_before_a_call_are_written_before_it_runs(context):
    order = []

    async def flush(call_id: str) -> None:
        await asyncio.sleep(0.02)
        order.append("flush")

    hook = PermissionHook(EXTRACTION.create_tools(context), context, before_call=flush)
    calls = ToolExecutor(hook)
    await ask(hook, "mcp__fieldmark__get_document_text", {}, call_id := str(uuid4()))
    await calls("get_document_text", call_id, {})
    assert order == ["flush"]


@pytest.mark.parametrize("edited", [None, TOTAL | {"value": 2}], ids=["unchanged", "edited"])
async def test_decided_call_continues_with_the_decision(case, context, edited):
    asking = PermissionHook(EXTRACTION.create_tools(context), context, ApprovalPolicy("ask"))
    for part in (MessageStarted("m", None), BlockStarted("call-1"), MessageStopped()):
        asking.calls.on_part(part)
    assert (await ask(asking, UPDATE, TOTAL))[0] == "defer"
    await decide(case.database, case.scope, context.run_id, ApprovalDecision("call-1", True, edited))
    hook = PermissionHook(EXTRACTION.create_tools(context), context, ApprovalPolicy("ask"), "call-1")
    hook_input = {"hook_event_name": "PreToolUse", "tool_name": UPDATE, "tool_input": TOTAL}
    output = (await hook(hook_input, "call-1", {}))["hookSpecificOutput"]
    assert (output["permissionDecision"], output.get("updatedInput")) == ("allow", edited)


EXTRACT, COMPLETE = "mcp__fieldmark__extract_fields", "mcp__fieldmark__complete_extraction"
FIELDS = {"fields": {"total": 1}}
ENDING = FIELDS | {"summary": "Done."}


async def arguments_in_message(hook: PermissionHook, *calls: tuple[str, dict]) -> list[dict | None]:
    """Ask the hook for the calls of one message. Return the arguments of each that may run, None if it is deferred."""
    blocks = [BlockStarted(f"call-{number}") for number in range(len(calls))]
    for part in (MessageStarted("m", None), *blocks, MessageStopped()):
        hook.calls.on_part(part)
    found: list[dict | None] = []
    for block, (tool, arguments) in zip(blocks, calls, strict=True):
        hook_input = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": arguments}
        output = (await hook(hook_input, block.call_id, {}))["hookSpecificOutput"]
        is_allowed = output["permissionDecision"] == "allow"
        found.append(output.get("updatedInput", arguments) if is_allowed else None)
        hook.outcomes[str(block.call_id)] = ToolOutcome("Done.", "ok")
    return found


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([(EXTRACT, ENDING)], [ENDING]),
        ([(UPDATE, TOTAL), (EXTRACT, ENDING)], [TOTAL, ENDING]),
        ([(EXTRACT, ENDING), (EXTRACT, ENDING)], [FIELDS, ENDING]),
        ([(EXTRACT, ENDING), (COMPLETE, {"summary": "Done."})], [FIELDS, {"summary": "Done."}]),
        ([(READ, {}), (EXTRACT, ENDING)], [{}, FIELDS]),
    ],
    ids=["alone", "after a write", "before a write", "before completion", "after an unread result"],
)
async def test_call_ends_the_run_only_if_it_is_the_last_and_all_results_are_read(case, hook, context, calls, expected):
    assert await arguments_in_message(hook, *calls) == expected
    writes = [arguments for (tool, _), arguments in zip(calls, expected, strict=True) if tool != READ]
    assert [entry["arguments"] for entry in case.ledger(context.run_id)] == writes


@pytest.mark.parametrize(
    ("approved", "expected"),
    [
        ({"extract_fields"}, FIELDS),
        ({"extract_fields", "complete_extraction"}, ENDING),
        ({"complete_extraction"}, None),
        (set(), None),
    ],
)
async def test_call_that_ends_the_run_needs_approval_for_the_end_too(case, context, approved, expected):
    hook = PermissionHook(EXTRACTION.create_tools(context), context, ApprovalPolicy("ask", frozenset(approved)))
    assert await arguments_in_message(hook, (EXTRACT, ENDING)) == [expected]
    (entry,) = case.ledger(context.run_id)
    assert (entry["status"], entry["arguments"]) == ("approved" if expected else "pending", expected or ENDING)


async def test_approved_write_lets_a_later_write_end_the_run(case, context):
    tools, policy = EXTRACTION.create_tools(context), ApprovalPolicy("ask", frozenset({"extract_fields"}))
    await case.record_call(context, "update_field", TOTAL, "call-9", ask=True)
    await decide(case.database, case.scope, context.run_id, ApprovalDecision("call-9", True))
    case.sql("update public.runs set status = 'running' where id = %s", context.run_id)
    assert await arguments_in_message(PermissionHook(tools, context, policy), (EXTRACT, ENDING)) == [ENDING]


async def test_decided_call_that_was_to_end_the_run_keeps_the_arguments_that_were_shown(case, context):
    policy = ApprovalPolicy("ask")
    asking = PermissionHook(EXTRACTION.create_tools(context), context, policy)
    assert await arguments_in_message(asking, (READ, {}), (EXTRACT, ENDING)) == [{}, None]
    await decide(case.database, case.scope, context.run_id, ApprovalDecision("call-1", True))
    hook = PermissionHook(EXTRACTION.create_tools(context), context, policy, "call-1")
    hook_input = {"hook_event_name": "PreToolUse", "tool_name": EXTRACT, "tool_input": ENDING}
    output = (await hook(hook_input, "call-1", {}))["hookSpecificOutput"]
    assert (output["permissionDecision"], output["updatedInput"]) == ("allow", FIELDS)
    assert hook.take_allowed("call-1", "extract_fields", FIELDS) == "call-1"
    assert case.extraction()["status"] == "in_progress"
