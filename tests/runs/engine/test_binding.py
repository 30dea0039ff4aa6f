"""Binding of a CLI to a run: its calls and entries belong to that run, and to no run in between."""

from __future__ import annotations

import asyncio
import contextvars
from types import SimpleNamespace
from uuid import uuid4

import pytest

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.runs.engine.binding import MAX_EARLY_BATCHES, RunBinding, RunHandlers
from fieldmark.runs.engine.permission_hook import PermissionHook
from fieldmark.runs.engine.session_store import ConversationStore
from fieldmark.runs.engine.tool_executor import ToolExecutor

pytestmark = pytest.mark.anyio

READ_CALL = {"hook_event_name": "PreToolUse", "tool_name": "mcp__fieldmark__get_document_text", "tool_input": {}}
CURRENT_RUN = contextvars.ContextVar("current_run", default="none")


def create_handlers(case, context) -> RunHandlers:
    log = []

    async def before(call_id: str) -> None:
        log.append(CURRENT_RUN.get())

    hook = PermissionHook(EXTRACTION.create_tools(context), context, before_call=before)
    work = RunHandlers(hook, ToolExecutor(hook), ConversationStore(case.database, case.scope))
    return SimpleNamespace(work=work, log=log)


def decision(verdict) -> str:
    return verdict["hookSpecificOutput"]["permissionDecision"]


async def is_answered(answering) -> bool:
    try:
        async with asyncio.timeout(0.1):
            await answering
    except TimeoutError:
        return False
    return True


async def test_call_between_runs_gets_no_answer(case):
    binding = RunBinding(uuid4())
    assert not await is_answered(binding.before_call(READ_CALL, "a", {})) and binding.tainted
    binding.tainted = False
    one = create_handlers(case, await case.context())
    binding.attach(one.work)
    assert decision(await binding.before_call(READ_CALL, "a", {})) == "allow"
    assert "Acme" in (await binding.call_tool("get_document_text", "a", {})).text and not binding.tainted
    binding.detach()
    for ask in (
        lambda: binding.before_call(READ_CALL, "b", {}),
        lambda: binding.call_tool("get_document_text", "a", {}),
    ):
        binding.tainted = False
        assert not await is_answered(ask()) and binding.tainted


async def test_call_runs_in_the_context_of_the_attached_run(case):
    binding, seen = RunBinding(uuid4()), []
    for name in ("first", "second"):
        token = CURRENT_RUN.set(name)
        one = create_handlers(case, await case.context(await (await case.another_extraction()).queue_run()))
        CURRENT_RUN.reset(token)
        binding.attach(one.work)
        await binding.before_call(READ_CALL, "a", {})
        await binding.call_tool("get_document_text", "a", {})
        seen += one.log
        binding.detach()
    assert seen == ["first", "second"]


def user_entry(text: str) -> list[dict]:
    return [{"type": "user", "uuid": str(uuid4()), "text": text}]


async def test_only_the_runs_own_conversation_is_stored(case):
    old, new, other = uuid4(), uuid4(), uuid4()
    store = ConversationStore(case.database, case.scope)
    binding = RunBinding(old)
    binding.attach(work := create_handlers(case, await case.context()).work)
    await binding.append({"project_key": "p", "session_id": str(old)}, user_entry("mine"))
    await work.sessions.flush()
    binding.detach()
    await binding.append({"project_key": "p", "session_id": str(old)}, user_entry("between runs"))
    await binding.append({"project_key": "p", "session_id": str(new)}, user_entry("early"))
    await binding.append({"project_key": "p", "session_id": str(other)}, user_entry("other"))
    binding.start_session(new)
    assert not await store.can_resume(new)
    binding.attach(
        work := create_handlers(case, await case.context(await (await case.another_extraction()).queue_run())).work
    )
    await binding.append({"project_key": "p", "session_id": str(old)}, user_entry("late"))
    await binding.append({"project_key": "p", "session_id": str(new)}, user_entry("later"))
    await work.sessions.flush()

    async def stored_texts(session_id) -> list[str]:
        found = await store.load({"project_key": "p", "session_id": str(session_id)})
        return [one["text"] for one in found or []]

    assert (await stored_texts(old), await stored_texts(new), await stored_texts(other)) == (
        ["mine"],
        ["early", "later"],
        [],
    )


async def test_cli_with_too_many_entries_between_runs_is_tainted():
    binding = RunBinding(uuid4())
    binding.detach()
    for _ in range(MAX_EARLY_BATCHES + 1):
        assert not binding.tainted
        await binding.append({"project_key": "p", "session_id": "another"}, user_entry("more"))
    assert binding.tainted
