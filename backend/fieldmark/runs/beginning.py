"""How a worker begins with a run that it has claimed: in which conversation, and with which first message."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import Prompt, decided_text
from fieldmark.runs.engine.session_store import Sessions
from fieldmark.runs.outcome import Outcome, ended_by_call
from fieldmark.stores import tool_calls
from fieldmark.tools.context import RunContext


@dataclass(frozen=True, slots=True)
class Beginning:
    """The conversation, whether it is a stored one that goes on (`is_resumed`), and what the agent is told.

    A conversation that stopped at a `decided_call` goes on without a `prompt`: the CLI asks for that call again and is
    given its recorded result."""

    session_id: UUID
    prompt: Prompt | None
    is_resumed: bool = False
    decided_call: str | None = None


async def begin(context: RunContext, sessions: Sessions) -> Beginning:
    """How to begin a run, by what is stored of its conversation: every run has its own."""
    session_id = context.run.session_id
    assert session_id is not None
    if context.run.fencing_token == 1:
        return Beginning(session_id, await _first_message(context))
    if not await sessions.has(session_id):
        return Beginning(session_id, await _message_again(context))
    # Asked of the conversation: the run's row may lag behind, if it was broken off just then.
    if (deferred := await sessions.deferred_call(session_id)) is not None:
        return Beginning(session_id, None, is_resumed=True, decided_call=deferred)
    return Beginning(session_id, await _resumed_message(context), is_resumed=True)


async def ended_earlier(context: RunContext) -> Outcome | None:
    """How the run ended, if a call of an earlier attempt, or one that a person has approved, ended it."""
    toolset = AGENTS[context.run.agent].toolset
    if context.fencing_token == 1 or not toolset.ending:
        return None
    async with context.database.as_user(context.scope) as conn:
        call = await tool_calls.done_of(conn, context.run_id, toolset.ending)
    answer = None if call is None else toolset.answer(call.tool, call.arguments, call.data)
    return None if answer is None else ended_by_call(answer)


async def restart(context: RunContext) -> Beginning:
    """A new conversation for a run whose own cannot go on. Nothing is lost: what was decided was done, and the first
    message says so."""
    return Beginning(uuid4(), await _message_again(context))


async def _first_message(context: RunContext) -> Prompt:
    task = AGENTS[context.run.agent].tasks[context.run.task]
    async with context.database.as_user(context.scope) as conn:
        return await task.briefing(conn, context, task.parse(context.run))


async def _message_again(context: RunContext) -> Prompt:
    """The first message of a conversation that begins again: an attempt that left none may have written all the
    same."""
    return _with(await _first_message(context), await _resumed_message(context))


async def _resumed_message(context: RunContext) -> str:
    """The message to a conversation that was broken off, with the calls that were decided."""
    async with context.database.as_user(context.scope) as conn:
        calls = await tool_calls.decided(conn, context.run_id)
    resumed = AGENTS[context.run.agent].resumed
    return f"{resumed}\n\n{decided_text(calls)}" if calls else resumed


def _with(prompt: Prompt, more: str) -> Prompt:
    return f"{prompt}\n\n{more}" if isinstance(prompt, str) else (prompt[0], f"{prompt[1]}\n\n{more}")
