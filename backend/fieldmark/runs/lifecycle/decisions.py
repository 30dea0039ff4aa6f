"""What people decide of runs. A decision is the execution: when it is answered, the write is there, or its refusal.

The agent only hears of it: its CLI repeats the call and gets the recorded result, or its next message says what was
done."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from fieldmark.agents.registry import AGENTS
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.events import ShownChange
from fieldmark.domain.statuses import CallStatus, RunStatus
from fieldmark.errors import (
    Conflict,
    FieldmarkError,
    Invalid,
    NotApprover,
    NotFound,
    ReadOnly,
    SecondPersonNeeded,
    TargetChanged,
)
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.approvals import approval_event, shown_changes
from fieldmark.runs.events.mapper import end_reporter, tool_event
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.services.evidence import Evidence
from fieldmark.stores import runs, tool_calls
from fieldmark.stores.runs import RunRow
from fieldmark.stores.tool_calls import CallRow
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.ledger import REFUSALS, By, ToolCall, ToolOutcome, execute, refused
from fieldmark.tools.toolset import RunTools, Toolset, hash_of


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person says of one call. `arguments` replace the agent's own; `reason` is what the agent is told.
    `approve_rest` also approves the run's later calls: of the same tool, or of all tools."""

    call_id: str
    approved: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None
    approve_rest: Literal["tool", "all"] | None = None


class WaitingCall(BaseModel):
    """The call that a run waits for: `POST /api/agent/approve` decides it."""

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    message: str = Field(description="What the call does, in words.", examples=["Updating total"])
    changes: list[ShownChange] = Field(description="What it would change, as you approve it: old → new for each path.")


async def pending_calls(conn: Connection, agents: Mapping[UUID, str]) -> dict[UUID, WaitingCall]:
    """Return the pending calls of those runs that await approval, by run id. `agents` are the runs with their
    agents."""
    if not agents:
        return {}
    waiting = await tool_calls.waiting(conn, list(agents))
    return {run_id: as_pending(agents[run_id], call) for run_id, call in waiting.items()}


def as_pending(agent: str, call: CallRow) -> WaitingCall:
    """A call of an agent's run as the person who is to decide it sees it. An agent that this process does not have may
    be another's: its call is shown by its tool's name."""
    spec = AGENTS.get(agent)
    message = call.tool if spec is None else spec.toolset.summary(call.tool, call.arguments)
    changes = shown_changes(call.changes or [])
    return WaitingCall(call_id=call.id, tool=call.tool, input=call.arguments, message=message, changes=changes)


async def proposed_evidence(database: Database, scope: Scope, run_id: UUID) -> Evidence:
    """Return where the values that a run waits to write are on the pages, as approving the call would store it. Empty
    for a call that writes no fields. Opens transactions of its own. Raises NotFound for a run that waits for no one."""
    async with database.as_user(scope) as conn:
        run = await runs.find(conn, run_id)
        call = (await tool_calls.waiting(conn, [run_id])).get(run_id)
    if call is None:
        raise NotFound("This run waits for no decision.")
    if run.agent not in AGENTS:
        return Evidence()
    tools = AGENTS[run.agent].create_tools(run_context(database, scope, run))
    prepare = tools.actions[call.tool].prepare
    try:
        prepared = prepare and await prepare(tools.check(call.tool, call.arguments))
    except REFUSALS:  # deciding it says why it cannot be done
        return Evidence()
    shown = getattr(prepared, "shown", None)
    return shown if isinstance(shown, Evidence) else Evidence()


async def decide(database: Database, scope: Scope, run_id: UUID, decision: Decision) -> int:
    """Decide the call that a run waits for, and do what was decided; the run goes on. Answers the number of the last
    event before that.

    It is carried out with the rights of whoever decides.

    Raises ReadOnly, NotApprover, or SecondPersonNeeded (also for `approve_rest` if a second person decides each call);
    NotFound if the run or call is not this user's to decide; Conflict if it is not pending; TargetChanged if its target
    changed since it was shown; Invalid if the tool does not accept the arguments.
    """
    async with database.as_user(scope) as conn:
        run = await runs.find(conn, run_id)
        call = await tool_calls.get(conn, run_id, decision.call_id)
        why = (await runs.approval_refusal_reason(conn, [run_id])).get(run_id, "not_found")
    if call is None or why:
        raise _refusal(run, "not_found" if call is None else why)
    if call.status is not CallStatus.PENDING or run.status is not RunStatus.AWAITING_APPROVAL:
        raise Conflict("This call waits no more: it was decided, or its run has ended.")
    if decision.arguments is not None and not decision.approved:
        raise Invalid("A rejected call needs no input.")
    if decision.approve_rest is not None and not decision.approved:
        raise Invalid("`approve_rest` needs `approved: true`: a rejection cannot approve later calls.")
    if not decision.approved:
        return await _reject(database, scope, run, call, decision)
    return await _approve(database, scope, run, call, decision)


def _refusal(run: RunRow, why: str) -> FieldmarkError:
    # Others see a run of a thread only where that is shared.
    first = "" if run.thread_id is None else " They see the conversation once you share it."
    match why:
        case "read_only":
            return ReadOnly("A viewer reads what a run waits for and decides nothing.")
        case "not_approver":
            return NotApprover(f"In this organisation an owner decides what a run waits for.{first}")
        case "second_person_needed":
            return SecondPersonNeeded(f"In this organisation somebody else decides than who started the run.{first}")
        case _:
            return NotFound("There is no such call that waits for you.")


def _end_reporter(run: RunRow, call: CallRow) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    toolset = AGENTS[run.agent].toolset if run.agent in AGENTS else Toolset()
    return end_reporter(run.id, tool_event(toolset, call.tool, call.id, call.arguments))


async def _reject(database: Database, scope: Scope, run: RunRow, call: CallRow, decision: Decision) -> int:
    report_end = _end_reporter(run, call)
    async with database.as_user(scope) as conn:
        last = await runs.last_event(conn, run.id)
        await _begin(conn, run, call, decision, None)
        said = f"A person refused this change. {decision.reason or ''}".strip()
        outcome = ToolOutcome(said, "refused", is_error=True)
        await report_end(conn, outcome)
        await runs.resume(conn, run.id)
    return last


async def _approve(database: Database, scope: Scope, run: RunRow, call: CallRow, decision: Decision) -> int:
    if run.agent not in AGENTS:
        raise Conflict(f"This service does not have the agent {run.agent!r}: decide its calls where it is.")
    edited = decision.arguments if decision.arguments != call.arguments else None
    arguments = call.arguments if edited is None else edited
    context = run_context(database, scope, run)
    tools = AGENTS[run.agent].create_tools(context)
    try:
        tools.check(call.tool, arguments)
    except ModelRetry as fault:
        raise Invalid(fault.text) from None
    report_end = _end_reporter(run, replace(call, arguments=arguments))
    last = 0

    async def decide(conn: Connection) -> None:
        nonlocal last
        last = await runs.last_event(conn, run.id)
        if decision.approve_rest is not None:
            every = [one.name for one in tools.tools.values() if one.asks]
            if not await runs.approve_later_calls(
                conn, run.id, [call.tool] if decision.approve_rest == "tool" else every
            ):
                raise SecondPersonNeeded("In this organisation a second person decides each call by itself.")
        await _begin(conn, run, call, decision, edited)
        await _check_target(conn, tools, call, edited)

    async def then(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.is_error and edited is not None:  # the person can mend what they wrote: nothing is decided yet
            raise Invalid(outcome.sentence)
        if outcome.code == "awaiting_runs":
            return
        await report_end(conn, outcome)
        await runs.resume(conn, run.id)

    try:
        wanted = ToolCall(call.tool, call.id, arguments)
        await execute(tools, context, wanted, by=By.PERSON, decide=decide, then=then)
    except _Moved as moved:
        changes = [change.as_json() for change in moved.now.changes]
        event = approval_event(
            run.id, call.id, call.tool, call.arguments, tools.summary(call.tool, call.arguments), changes
        )
        async with database.as_user(scope) as conn:
            await tool_calls.show_updated_call(conn, run.id, call.id, moved.now, event)
        raise _target_changed(call, moved) from None
    return last


class _Moved(Exception):
    """What a call would change is no more as it was shown: `now` is how it stands. `chosen` is what the person's own
    arguments would change, where those are what moved."""

    def __init__(self, now: Preview, chosen: Preview | None = None) -> None:
        self.now = now
        self.chosen = chosen


async def _begin(
    conn: Connection, run: RunRow, call: CallRow, decision: Decision, edited: dict[str, JsonValue] | None
) -> None:
    begun = await tool_calls.start_decision(
        conn,
        run.id,
        call.id,
        seen_hash=call.arguments_hash,
        approved=decision.approved,
        reason=decision.reason,
        arguments=edited,
        arguments_hash=None if edited is None else hash_of(edited),
    )
    if not begun:
        raise Conflict("This call waits no more: it was decided just now.")


async def _check_target(
    conn: Connection,
    tools: RunTools,
    call: CallRow,
    edited: dict[str, JsonValue] | None,
) -> None:
    """Raise _Moved where what the person was shown stands no more. The agent's own arguments are what was shown.
    Whoever edits them may choose places that were not: only while nothing at all has changed since."""
    preview = tools.actions[call.tool].preview
    if preview is None or call.target_hash is None:
        return
    try:
        now = await preview(conn, tools.check(call.tool, call.arguments))
    except REFUSALS as error:  # nothing stands there any more
        now = Preview((), refused(error).sentence)
    if now.target_hash != call.target_hash:
        raise _Moved(now)
    if edited is None or now.version == call.target_version:
        return
    with contextlib.suppress(*REFUSALS):  # what cannot be done is refused when it is tried
        chosen = await preview(conn, tools.check(call.tool, edited))
        if not now.covers(chosen):
            raise _Moved(now, chosen)


def _target_changed(call: CallRow, moved: _Moved) -> TargetChanged:
    before = {str(one["path"]): one for one in call.changes or []}
    now = moved.now if moved.chosen is None else moved.chosen
    places: list[JsonValue] = []
    for change in now.changes:
        (seen,) = shown_changes([change.as_json()])
        places.append({**seen.model_dump(mode="json"), "shown": before.get(change.path, {}).get("old")})
    missing = before.keys() - {change.path for change in moved.now.changes}
    places += [
        {"path": path, "old": None, "shown": before[path].get("old"), "new": before[path].get("new")}
        for path in sorted(missing)
    ]
    return TargetChanged(
        "What this call would change was changed since it was shown. It waits with what stands there now.",
        details={"changes": places},
    )


async def cancel(database: Database, scope: Scope, run_id: UUID) -> None:
    """End a run, whatever it is at, and its child runs. What they wrote stays. Nothing happens to one that has ended;
    raises NotFound."""
    async with database.as_user(scope) as conn:
        run = await runs.find(conn, run_id)
        if not run.status.is_final:
            await runs.cancel(conn, run_id, "The run was cancelled.")
