"""Run a tool call exactly once, as one user, and record it in the ledger of tool calls. Every call goes through
`execute`, no matter who approved it.

READ         prepare · begin · fence · run · commit
NOTE, WRITE  prepare · begin · claim · run · record · commit
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import structlog
from pydantic import JsonValue

from fieldmark.db.pool import Connection, savepoint
from fieldmark.domain.events import EventBase
from fieldmark.domain.retry import retry_while_stale
from fieldmark.domain.statuses import CallStatus
from fieldmark.errors import (
    Conflict,
    Fenced,
    FieldmarkError,
    Invalid,
    InvalidFields,
    NameTaken,
    NotFound,
    QueueFull,
    Stale,
    TooLarge,
    VersionChanged,
)
from fieldmark.stores import runs, tool_calls
from fieldmark.stores.tool_calls import ClaimedCall
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ModelRetry, ToolFailed, ToolRefusal
from fieldmark.tools.fields import shorten_lists
from fieldmark.tools.toolset import (
    Action,
    ChildRun,
    RunTools,
    ShownResult,
    Tool,
    ToolInput,
    ToolResult,
    hash_arguments,
    model_text,
)

log = structlog.get_logger()

REFUSALS = (ToolRefusal, Invalid, TooLarge, NotFound, Conflict, QueueFull)
"""Errors that `refused` turns into a result for the model."""
_NOT_AGAIN = "Calling again will not help."


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call. `sentence` and `details` (of an error: its `details`) are for people, `text` is for the
    model."""

    sentence: str
    code: str
    data: JsonValue = None
    is_error: bool = False
    needs_attention: bool = False
    shown: ShownResult | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        return model_text(self.sentence, self.code, self.data)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with checked arguments and its slow work done. `value` is passed to the tool's `run`, unless preparing
    ended in a `refusal`."""

    tool: Tool[Any]
    action: Action
    value: Any = None
    refusal: ToolOutcome | None = None


class StartedBy(StrEnum):
    """Who approved or resumes a call. This decides how the call starts.

    POLICY   the run's approval policy: the call's ledger entry is claimed
    PERSON   a person, just now: the decision is stored in the call's transaction, and kept even if the call fails
    SERVICE  the service itself makes the call, without approval: the entry is inserted in the call's transaction
    RUNS     the call's child runs have ended: its waiting entry is claimed
    """

    POLICY = "policy"
    PERSON = "person"
    SERVICE = "service"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call to run: the tool's name, the call's id in the ledger, the arguments."""

    tool: str
    id: str | None
    arguments: Mapping[str, JsonValue]


async def execute(
    tools: RunTools,
    context: RunContext,
    call: ToolCall,
    *,
    started_by: StartedBy,
    decide: Callable[[Connection], Awaitable[None]] | None = None,
    then: Callable[[Connection, ToolOutcome], Awaitable[None]] | None = None,
) -> ToolOutcome:
    """Run an approved call, or return the recorded outcome if it ran before. Expected failures are returned as
    outcomes.

    `decide` stores a person's decision and `then` handles the outcome, both in the call's transaction. Raise what these
    raise, Fenced if another worker took over the run, and the database's errors if it is unreachable.
    """
    context = replace(context, call_id=call.id)
    try:
        args = tools.check(call.tool, call.arguments)
    except ModelRetry as fault:
        tool, refusal = tools.tools.get(call.tool), outcome_of_error(fault)
        if tool is None or not tool.is_gated or call.id is None:
            return refusal
        wrong = Prepared(tool, tools.actions[call.tool], refusal=refusal)
        return await _attempt(context, call, started_by, wrong, decide, then)
    tool, action = tools.tools[call.tool], tools.actions[call.tool]
    if tool.is_gated and call.id is None:
        return outcome_of_error(ToolFailed("The call has no id, so it cannot have been approved.", "not_approved"))

    async def attempt() -> ToolOutcome:
        return await _attempt(context, call, started_by, await _prepare(tool, action, args), decide, then)

    try:
        return await retry_while_stale(attempt)
    except Exception as error:
        if started_by is StartedBy.PERSON:
            raise
        return await _attempt(
            context, call, started_by, Prepared(tool, action, refusal=outcome_of_error(error)), decide, then
        )


async def _attempt(
    context: RunContext,
    call: ToolCall,
    started_by: StartedBy,
    prepared: Prepared,
    decide: Callable[[Connection], Awaitable[None]] | None,
    then: Callable[[Connection, ToolOutcome], Awaitable[None]] | None,
) -> ToolOutcome:
    """Run a call in one transaction. Errors that are not outcomes are raised and roll it back."""
    if prepared.refusal is not None and not prepared.tool.is_gated and then is None:
        return prepared.refusal
    async with context.database.as_user(context.scope) as conn:
        if not prepared.tool.is_gated:
            await runs.fence(conn, context.run_id, context.fencing_token)
        elif (settled := await _begin(conn, context, call, started_by, decide)) is not None:
            return settled
        outcome = prepared.refusal or await _run(conn, context, prepared, keeps_going=started_by is StartedBy.PERSON)
        if outcome.is_error and prepared.tool.is_gated:
            await _record(conn, context, outcome)
        if then is not None:
            await then(conn, outcome)
        return outcome


async def _begin(
    conn: Connection,
    context: RunContext,
    call: ToolCall,
    started_by: StartedBy,
    decide: Callable[[Connection], Awaitable[None]] | None,
) -> ToolOutcome | None:
    """Claim the call's ledger entry. Return an outcome if the call ran before or is not approved."""
    assert call.id is not None
    if started_by is StartedBy.PERSON:
        assert decide is not None
        await decide(conn)
        return None
    if started_by is StartedBy.SERVICE:
        await tool_calls.record(
            conn,
            run_id=context.run_id,
            fencing_token=context.fencing_token,
            org_id=context.scope.org_id,
            call_id=call.id,
            tool=call.tool,
            arguments=dict(call.arguments),
            arguments_hash=hash_arguments(call.arguments),
            status=CallStatus.APPROVED,
        )
    claimed = await tool_calls.claim(
        conn,
        run_id=context.run_id,
        fencing_token=context.fencing_token,
        call_id=call.id,
        tool=call.tool,
        arguments_hash=hash_arguments(call.arguments),
    )
    if claimed is None:
        return outcome_of_error(ToolFailed("This call was not approved.", "not_approved"))
    if (recorded := _recorded_outcome(claimed)) is not None:
        return recorded
    if claimed.status is not (CallStatus.WAITING if started_by is StartedBy.RUNS else CallStatus.APPROVED):
        return outcome_of_error(ToolFailed("This call was refused.", "refused"))
    return None


async def _run(conn: Connection, context: RunContext, prepared: Prepared, *, keeps_going: bool) -> ToolOutcome:
    """Run the tool and record the outcome. A refusal is raised and ends the transaction; with `keeps_going` only the
    tool's own changes are rolled back."""
    if not keeps_going:
        return await _perform(conn, context, prepared)
    try:
        async with savepoint(conn):
            return await _perform(conn, context, prepared)
    except Stale:
        raise
    except Exception as error:  # noqa: BLE001  refusals of the tool; the rest is raised again
        return outcome_of_error(error)


async def _perform(conn: Connection, context: RunContext, prepared: Prepared) -> ToolOutcome:
    try:
        async with asyncio.timeout(context.tool_seconds):
            result = await prepared.action.run(conn, prepared.value)
    except TimeoutError:
        log.warning("a tool took too long", tool=prepared.tool.name, seconds=context.tool_seconds)
        raise ToolFailed(f"This took longer than {context.tool_seconds:g} seconds.", "tool_timeout") from None
    if not isinstance(result, ToolResult):
        assert context.call_id is not None
        children = [result] if isinstance(result, ChildRun) else result
        for child in children:
            await context.start_run(conn, context, child)
        await runs.await_runs(conn, context.run_id, context.call_id)
        return ToolOutcome(children[0].text, "awaiting_runs")
    outcome = ToolOutcome(
        result.text, result.code, result.data, needs_attention=result.needs_attention, shown=result.shown
    )
    if prepared.tool.is_gated:
        await _record(conn, context, outcome, result.events)
    return outcome


async def _record(
    conn: Connection, context: RunContext, outcome: ToolOutcome, events: Sequence[EventBase] = ()
) -> None:
    assert context.call_id is not None
    await tool_calls.finish(
        conn,
        run_id=context.run_id,
        call_id=context.call_id,
        result=outcome.sentence,
        failed=outcome.is_error,
        code=outcome.code,
        data=outcome.data,
        events=events,
    )


async def _prepare(tool: Tool[Any], action: Action, args: ToolInput) -> Prepared:
    """Check the arguments and do the slow work, without a connection. A refusal is returned, not raised, since the
    ledger may hold the outcome of an earlier attempt."""
    try:
        if action.check is not None:
            await action.check(args)
        return Prepared(tool, action, args if action.prepare is None else await action.prepare(args))
    except Exception as error:  # noqa: BLE001  refusals of the tool; the rest is raised again
        return Prepared(tool, action, refusal=outcome_of_error(error))


async def collect(
    context: RunContext,
    tools: RunTools,
    row: tool_calls.CallRow,
    then: Callable[[Connection, ToolOutcome], Awaitable[None]],
) -> ToolOutcome | None:
    """Run a call's `collect` after all its child runs have ended. Return None while one is still running."""
    async with context.database.as_user(context.scope) as conn:
        await runs.fence(conn, context.run_id, context.fencing_token)
        started = await runs.children(conn, context.run_id, row.id)
    if not all(run.status.is_final for run in started):
        return None
    make_answer = tools.actions[row.tool].collect
    assert make_answer is not None

    async def answer(conn: Connection, args: ToolInput) -> ToolResult:
        return await make_answer(conn, args, started)

    tools = RunTools(tools.tools, {**tools.actions, row.tool: Action(answer)})
    return await execute(
        tools, context, ToolCall(row.tool, row.id, row.arguments), started_by=StartedBy.RUNS, then=then
    )


def outcome_of_error(error: Exception) -> ToolOutcome:
    """Return the outcome for an error raised by a tool or a service. Raise the error again if it must end the run."""
    match error:
        case ToolFailed():
            return ToolOutcome(f"{error.text} {_NOT_AGAIN}", error.code, error.data, is_error=True)
        case ToolRefusal():
            return ToolOutcome(error.text, error.code, error.data, is_error=True)
        case InvalidFields():
            return ToolOutcome(
                str(error),
                error.code,
                shorten_lists({"paths": list(error.paths)}),
                is_error=True,
                details=error.details,
            )
        case Invalid() | TooLarge() | NameTaken() | VersionChanged():
            return ToolOutcome(str(error), error.code, is_error=True, details=error.details)
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


def _recorded_outcome(claimed: ClaimedCall) -> ToolOutcome | None:
    if claimed.status not in (CallStatus.DONE, CallStatus.FAILED):
        return None
    return ToolOutcome(claimed.result or "", claimed.code or "ok", claimed.data, claimed.status is CallStatus.FAILED)
