"""What a CLI is tied to: in a run all goes to that run, in its context; between two nothing goes anywhere."""

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

READ = {"hook_event_name": "PreToolUse", "tool_name": "mcp__fieldmark__get_document_text", "tool_input": {}}
WHOSE = contextvars.ContextVar("whose", default="nobody")


def work_of(case, context) -> RunHandlers:
    log = []

    async def before(call_id: str) -> None:
        log.append(WHOSE.get())

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
    holder = RunBinding(uuid4())
    assert not await is_answered(holder.before_call(READ, "a", {})) and holder.tainted
    holder.tainted = False
    one = work_of(case, await case.context())
    holder.attach(one.work)
    assert decision(await holder.before_call(READ, "a", {})) == "allow"
    assert "Acme" in (await holder.call_tool("get_document_text", "a", {})).text and not holder.tainted
    holder.detach()
    for ask in (lambda: holder.before_call(READ, "b", {}), lambda: holder.call_tool("get_document_text", "a", {})):
        holder.tainted = False
        assert not await is_answered(ask()) and holder.tainted


async def test_call_runs_in_the_context_of_the_attached_run(case):
    holder, seen = RunBinding(uuid4()), []
    for name in ("first", "second"):
        token = WHOSE.set(name)
        one = work_of(case, await case.context(await (await case.another_extraction()).queue_run()))
        WHOSE.reset(token)
        holder.attach(one.work)
        await holder.before_call(READ, "a", {})
        await holder.call_tool("get_document_text", "a", {})
        seen += one.log
        holder.detach()
    assert seen == ["first", "second"]


def entry(word: str) -> list[dict]:
    return [{"type": "user", "uuid": str(uuid4()), "text": word}]


async def test_only_the_runs_own_conversation_is_stored(case):
    old, new, other = uuid4(), uuid4(), uuid4()
    store = ConversationStore(case.database, case.scope)
    holder = RunBinding(old)
    holder.attach(work := work_of(case, await case.context()).work)
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("mine"))
    await work.sessions.flush()
    holder.detach()
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("of nobody"))
    await holder.append({"project_key": "p", "session_id": str(new)}, entry("it begins"))
    await holder.append({"project_key": "p", "session_id": str(other)}, entry("of another"))
    holder.start_session(new)
    assert not await store.can_resume(new)
    holder.attach(work := work_of(case, await case.context(await (await case.another_extraction()).queue_run())).work)
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("late"))
    await holder.append({"project_key": "p", "session_id": str(new)}, entry("it goes on"))
    await work.sessions.flush()

    async def kept(session_id) -> list[str]:
        found = await store.load({"project_key": "p", "session_id": str(session_id)})
        return [one["text"] for one in found or []]

    assert (await kept(old), await kept(new), await kept(other)) == (["mine"], ["it begins", "it goes on"], [])


async def test_cli_with_too_many_entries_between_runs_is_tainted():
    holder = RunBinding(uuid4())
    holder.detach()
    for _ in range(MAX_EARLY_BATCHES + 1):
        assert not holder.tainted
        await holder.append({"project_key": "p", "session_id": "another"}, entry("more"))
    assert holder.tainted
