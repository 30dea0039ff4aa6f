"""Decides how the conversation of a claimed run starts or continues, and with which message."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import Briefing, decided_text
from fieldmark.runs.engine.session_store import ConversationStore
from fieldmark.runs.outcome import Outcome, completed_by_tool
from fieldmark.stores import tool_calls
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """The conversation and the next message to the agent. `is_resumed` is true for a stored conversation.

    A conversation that stopped at a `decided_call` continues without a `prompt`: the CLI repeats that call and receives
    its recorded result."""

    session_id: UUID
    prompt: Briefing | None
    is_resumed: bool = False
    decided_call: str | None = None


async def start_or_resume(context: RunContext, sessions: ConversationStore) -> ConversationStart:
    """Return how to start or continue the run's conversation, depending on what is stored of it."""
    session_id = context.run.session_id
    assert session_id is not None
    if context.run.fencing_token == 1:
        return ConversationStart(session_id, await _first_message(context))
    if not await sessions.can_resume(session_id):
        return ConversationStart(session_id, await _restart_message(context))
    # Read from the conversation: if the worker was interrupted at that moment, the run's row may be older.
    if (deferred := await sessions.deferred_call(session_id)) is not None:
        return ConversationStart(session_id, None, is_resumed=True, decided_call=deferred)
    return ConversationStart(session_id, await _resumed_message(context), is_resumed=True)


async def earlier_outcome(context: RunContext) -> Outcome | None:
    """Return the run's outcome if a call that ends it is already done: in an earlier attempt, or approved since."""
    if context.fencing_token == 1:
        return None
    toolset = AGENTS[context.run.agent].create_tools(context)
    if not toolset.ending:
        return None
    async with context.database.as_user(context.scope) as conn:
        call = await tool_calls.last_done(conn, context.run_id, toolset.ending)
    answer = None if call is None else toolset.answer(call.tool, call.arguments, call.data)
    return None if answer is None else completed_by_tool(answer)


async def start_over(context: RunContext) -> ConversationStart:
    """Return a new conversation for a run whose stored one can't continue. Its first message lists the calls that were
    decided and done."""
    return ConversationStart(uuid4(), await _restart_message(context))


async def _first_message(context: RunContext) -> Briefing:
    task = AGENTS[context.run.agent].tasks[context.run.task]
    async with context.database.as_user(context.scope) as conn:
        return await task.briefing(conn, context, task.parse(context.run))


async def _restart_message(context: RunContext) -> Briefing:
    """Return the first message, followed by what earlier attempts did: they may have written without storing their
    conversation."""
    return _append_text(await _first_message(context), await _resumed_message(context))


async def _resumed_message(context: RunContext) -> str:
    """Return the message that continues an interrupted conversation. It lists the calls that were decided."""
    async with context.database.as_user(context.scope) as conn:
        calls = await tool_calls.list_ended_decided_calls(conn, context.run_id)
    resumed = AGENTS[context.run.agent].resumed
    return f"{resumed}\n\n{decided_text(calls)}" if calls else resumed


def _append_text(prompt: Briefing, text: str) -> Briefing:
    return f"{prompt}\n\n{text}" if isinstance(prompt, str) else (prompt[0], f"{prompt[1]}\n\n{text}")
