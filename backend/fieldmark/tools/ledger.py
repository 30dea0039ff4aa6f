"""Runs one call of a tool: once, as one user, recorded in the ledger. The same for an agent's call and a person's
decision.

READ      begin · fence · run · commit
NOTE      as WRITE
WRITE     prepare · begin · fence and claim · run · record · commit
EXTERNAL  begin · fence and claim · commit · prepare (the work, without a connection) · begin · fence and claim · run ·
          record · commit
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.attempts import again_while_stale, once
from fieldmark.domain.statuses import CallStatus
from fieldmark.errors import (
    AtPaths,
    Conflict,
    Fenced,
    FieldmarkError,
    Invalid,
    NameTaken,
    NotFound,
    QueueFull,
    TooLarge,
    VersionChanged,
)
from fieldmark.stores import runs, tool_calls
from fieldmark.stores.tool_calls import Claimed
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ToolFailed, ToolRefusal
from fieldmark.tools.fields import fitting
from fieldmark.tools.toolset import RunsStarted, Tool, ToolEffect, ToolInput, ToolResult, Toolset, hash_of, model_text

log = structlog.get_logger()

REFUSALS = (ToolRefusal, Invalid, TooLarge, NotFound, Conflict, QueueFull)
"""What `refused` has words for."""
_NOT_AGAIN = "This cannot be mended by calling again."


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to. `sentence` is for people, `text` is what the model gets."""

    sentence: str
    code: str
    data: JsonValue = None
    is_error: bool = False
    heed: bool = False

    @property
    def text(self) -> str:
        return model_text(self.sentence, self.code, self.data)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call whose arguments are checked and whose slow work is done: `value` is for the tool's `run`, unless a
    `refusal` has come of it."""

    tool: Tool[Any]
    args: ToolInput
    value: Any = None
    refusal: ToolOutcome | None = None


async def run_call(
    toolset: Toolset,
    context: RunContext[Any],
    name: str,
    call_id: str | None,
    arguments: Mapping[str, JsonValue],
    ahead: Awaitable[Prepared] | None = None,
) -> ToolOutcome:
    """Run a call that was admitted; one that has run already is answered as before. Every expected failure is an
    outcome. `ahead` is the preparation of this call, where it was begun when the call was admitted. Raises Fenced if
    this worker lost the run, and whatever the database raises if it does not answer."""
    tool = toolset.tools.get(name)
    context = replace(context, call_id=call_id)
    try:
        args = toolset.check(name, arguments)
        assert tool is not None
        if tool.effect is ToolEffect.READ:
            return await _read(tool, context, args)
        if call_id is None:
            raise ToolFailed("The call came without its id, so nobody can have admitted it.", "not_admitted")
        if tool.effect is ToolEffect.EXTERNAL:
            async with context.database.as_user(context.scope) as conn:
                if (recorded := await _claim(conn, context, name, call_id, arguments)) is not None:
                    return recorded
        # (An external tool's work is done once.)
        again = once if tool.effect is ToolEffect.EXTERNAL else again_while_stale
        begun = iter(() if ahead is None else (ahead,))
        outcome, is_recorded = await again(
            lambda: _attempt(context, next(begun, None) or prepare(tool, context, args), tool, call_id, arguments)
        )
        if is_recorded:
            return outcome
    except Exception as error:  # noqa: BLE001  refusals and faults of the tool; the rest is raised again
        outcome = refused(error)
    if tool is not None and tool.is_gated and call_id is not None:
        await _record_refusal(context, name, call_id, arguments, outcome)
    return outcome


async def _attempt(
    context: RunContext[Any],
    preparing: Awaitable[Prepared],
    tool: Tool[Any],
    call_id: str,
    arguments: Mapping[str, JsonValue],
) -> tuple[ToolOutcome, bool]:
    """What a call comes to, and whether that is recorded."""
    prepared = await preparing
    async with context.database.as_user(context.scope) as conn:
        if (recorded := await _claim(conn, context, tool.name, call_id, arguments)) is not None:
            return recorded, True
        if prepared.refusal is None:
            return await perform(conn, context, prepared, call_id), True
    return prepared.refusal, False


async def prepare(tool: Tool[Any], context: RunContext[Any], args: ToolInput) -> Prepared:
    """Do what a call takes time for, without a connection. What the tool refuses is remembered and not raised, since
    the ledger may know the call as done already."""
    try:
        if tool.check is not None:
            await tool.check(context, args)
        if tool.prepare is None:
            return Prepared(tool, args, args)
        return Prepared(tool, args, await tool.prepare(context, args))
    except Exception as error:  # noqa: BLE001  as above
        return Prepared(tool, args, refusal=refused(error))


async def perform(conn: Connection, context: RunContext[Any], prepared: Prepared, call_id: str) -> ToolOutcome:
    """Run a prepared call in this transaction and record its answer. A call that starts child runs becomes
    `waiting`."""
    result = await _run(conn, context, prepared)
    if isinstance(result, RunsStarted):
        await runs.await_runs(conn, context.run_id, call_id)
        return ToolOutcome(result.text, "awaiting_runs")
    return await _record(conn, context, call_id, result)


async def collect(context: RunContext[Any], toolset: Toolset, call: tool_calls.CallRow) -> ToolOutcome | None:
    """The answer of a call whose child runs have all ended, recorded; None while one of them goes on."""
    tool = toolset.tools[call.tool]
    assert tool.collect is not None
    context = replace(context, call_id=call.id)
    try:
        args = toolset.check(call.tool, call.arguments)
        async with context.database.as_user(context.scope) as conn:
            await runs.fence(conn, context.run_id, context.fencing_token)
            started = await runs.children(conn, context.run_id, call.id)
            if not all(run.status.is_final for run in started):
                return None
            claimed = await tool_calls.claim(
                conn,
                run_id=context.run_id,
                fencing_token=context.fencing_token,
                call_id=call.id,
                tool=call.tool,
                arguments_hash=call.arguments_hash,
            )
            if claimed is not None and (recorded := _recorded(claimed)) is not None:
                return recorded
            return await _record(conn, context, call.id, await tool.collect(conn, context, args, started))
    except Exception as error:  # noqa: BLE001  as above
        outcome = refused(error)
    await _record_refusal(context, call.tool, call.id, call.arguments, outcome)
    return outcome


def refused(error: Exception) -> ToolOutcome:
    """What the model is told of an error that a tool or a service raised. Raises again one that must end the run."""
    match error:
        case ToolFailed():
            return ToolOutcome(f"{error.text} {_NOT_AGAIN}", error.code, error.data, is_error=True)
        case ToolRefusal():
            return ToolOutcome(error.text, error.code, error.data, is_error=True)
        case AtPaths():
            return ToolOutcome(str(error), error.code, fitting({"paths": list(error.paths)}), is_error=True)
        case Invalid() | TooLarge() | NameTaken() | VersionChanged():
            return ToolOutcome(str(error), error.code, is_error=True)
        case Fenced():
            raise error
        case NotFound() | Conflict() | QueueFull():
            return ToolOutcome(f"{error} {_NOT_AGAIN}", error.code, is_error=True)
        case FieldmarkError():
            raise error
        case _:
            # An exception's text may hold a DSN or another tenant's value: it goes into the log, never to the model.
            log.exception("tool failed", exc_info=error)
            return ToolOutcome(f"Internal error. {_NOT_AGAIN}", "internal", is_error=True)


async def _read(tool: Tool[Any], context: RunContext[Any], args: ToolInput) -> ToolOutcome:
    prepared = await prepare(tool, context, args)
    if prepared.refusal is not None:
        return prepared.refusal
    async with context.database.as_user(context.scope) as conn:
        await runs.fence(conn, context.run_id, context.fencing_token)
        result = await _run(conn, context, prepared)
        return ToolOutcome(result.text, result.code, result.data)


async def _run(conn: Connection, context: RunContext[Any], prepared: Prepared) -> ToolResult:
    """What the tool does in its transaction. Raises ToolFailed where that takes too long: nothing of it is kept."""
    try:
        async with asyncio.timeout(context.tool_seconds):
            return await prepared.tool.run(conn, context, prepared.value)
    except TimeoutError:
        log.warning("a tool took too long", tool=prepared.tool.name, seconds=context.tool_seconds)
        raise ToolFailed(f"This took longer than {context.tool_seconds:g} seconds.", "tool_timeout") from None


async def _claim(
    conn: Connection, context: RunContext[Any], name: str, call_id: str, arguments: Mapping[str, JsonValue]
) -> ToolOutcome | None:
    """Hold the call for this transaction; what it answered where it has run. Raises ToolFailed if it may not run."""
    claimed = await tool_calls.claim(
        conn,
        run_id=context.run_id,
        fencing_token=context.fencing_token,
        call_id=call_id,
        tool=name,
        arguments_hash=hash_of(arguments),
    )
    if claimed is None:
        raise ToolFailed("This call was not admitted.", "not_admitted")
    if (recorded := _recorded(claimed)) is not None:
        return recorded
    if claimed.status is not CallStatus.ADMITTED:
        raise ToolFailed("This call was refused.", "refused")
    return None


def _recorded(claimed: Claimed) -> ToolOutcome | None:
    if claimed.status not in (CallStatus.DONE, CallStatus.FAILED):
        return None
    return ToolOutcome(claimed.result or "", claimed.code or "ok", claimed.data, claimed.status is CallStatus.FAILED)


async def _record(conn: Connection, context: RunContext[Any], call_id: str, result: ToolResult) -> ToolOutcome:
    outcome = ToolOutcome(result.text, result.code, result.data, heed=result.heed)
    await tool_calls.finish(
        conn,
        run_id=context.run_id,
        call_id=call_id,
        result=outcome.sentence,
        failed=False,
        code=outcome.code,
        data=outcome.data,
        events=result.events,
    )
    return outcome


async def _record_refusal(
    context: RunContext[Any], name: str, call_id: str, arguments: Mapping[str, JsonValue], outcome: ToolOutcome
) -> None:
    async with context.database.as_user(context.scope) as conn:
        claimed = await tool_calls.claim(
            conn,
            run_id=context.run_id,
            fencing_token=context.fencing_token,
            call_id=call_id,
            tool=name,
            arguments_hash=hash_of(arguments),
        )
        if claimed is not None and claimed.status in (CallStatus.ADMITTED, CallStatus.WAITING):
            await tool_calls.finish(
                conn,
                run_id=context.run_id,
                call_id=call_id,
                result=outcome.sentence,
                failed=True,
                code=outcome.code,
                data=outcome.data,
            )
