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
from fieldmark.runs.engine.session_store import Sessions
from fieldmark.runs.engine.tool_executor import ToolExecutor

pytestmark = pytest.mark.anyio

READ = {"hook_event_name": "PreToolUse", "tool_name": "mcp__fieldmark__get_document_text", "tool_input": {}}
WHOSE = contextvars.ContextVar("whose", default="nobody")


def work_of(case, context) -> RunHandlers:
    log = []

    async def before(call_id: str) -> None:
        log.append(WHOSE.get())

    hook = PermissionHook(EXTRACTION.create_tools(context), context, before=before)
    work = RunHandlers(hook, ToolExecutor(hook), Sessions(case.database, case.scope))
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


async def test_between_runs_no_call_is_answered_since_the_cli_would_ask_the_model_again(case):
    holder = RunBinding(uuid4())
    assert not await is_answered(holder.hook(READ, "a", {})) and holder.spoilt
    holder.spoilt = False
    one = work_of(case, await case.context())
    holder.take(one.work)
    assert decision(await holder.hook(READ, "a", {})) == "allow"
    assert "Acme" in (await holder.answer("get_document_text", "a", {})).text and not holder.spoilt
    holder.leave()
    for ask in (lambda: holder.hook(READ, "b", {}), lambda: holder.answer("get_document_text", "a", {})):
        holder.spoilt = False
        assert not await is_answered(ask()) and holder.spoilt


async def test_a_call_is_answered_in_the_context_of_the_run_that_has_the_cli(case):
    holder, seen = RunBinding(uuid4()), []
    for name in ("first", "second"):
        token = WHOSE.set(name)
        one = work_of(case, await case.context(await (await case.another_extraction()).queue_run()))
        WHOSE.reset(token)
        holder.take(one.work)
        await holder.hook(READ, "a", {})
        await holder.answer("get_document_text", "a", {})
        seen += one.log
        holder.leave()
    assert seen == ["first", "second"]


def entry(word: str) -> list[dict]:
    return [{"type": "user", "uuid": str(uuid4()), "text": word}]


async def test_only_the_run_s_own_conversation_is_kept(case):
    old, new, other = uuid4(), uuid4(), uuid4()
    store = Sessions(case.database, case.scope)
    holder = RunBinding(old)
    holder.take(work := work_of(case, await case.context()).work)
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("mine"))
    await work.sessions.flush()
    holder.leave()
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("of nobody"))
    await holder.append({"project_key": "p", "session_id": str(new)}, entry("it begins"))
    await holder.append({"project_key": "p", "session_id": str(other)}, entry("of another"))
    holder.begin(new)
    assert not await store.has(new)
    holder.take(work := work_of(case, await case.context(await (await case.another_extraction()).queue_run())).work)
    await holder.append({"project_key": "p", "session_id": str(old)}, entry("late"))
    await holder.append({"project_key": "p", "session_id": str(new)}, entry("it goes on"))
    await work.sessions.flush()

    async def kept(session_id) -> list[str]:
        found = await store.load({"project_key": "p", "session_id": str(session_id)})
        return [one["text"] for one in found or []]

    assert (await kept(old), await kept(new), await kept(other)) == (["mine"], ["it begins", "it goes on"], [])


async def test_one_that_says_too_much_between_runs_is_spoilt():
    holder = RunBinding(uuid4())
    holder.leave()
    for _ in range(MAX_EARLY_BATCHES + 1):
        assert not holder.spoilt
        await holder.append({"project_key": "p", "session_id": "another"}, entry("more"))
    assert holder.spoilt
