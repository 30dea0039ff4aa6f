"""Decisions of people on pending calls. Approving a call executes it: when `decide` returns, its write is stored.

The agent learns the result later: its CLI repeats the call and receives the recorded result, or the next message to the
agent contains it."""

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
from fieldmark.domain.json_values import as_list, as_object
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
from fieldmark.services.evidence import FoundEvidence
from fieldmark.stores import runs, tool_calls
from fieldmark.stores.runs import RunRow
from fieldmark.stores.tool_calls import CallRow
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.ledger import REFUSALS, StartedBy, ToolCall, ToolOutcome, execute, outcome_of_error
from fieldmark.tools.toolset import RunTools, Toolset, hash_arguments


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's decision on one call. `arguments` replace those of the agent; the agent receives the `reason`.
    `approve_rest` also approves the run's later calls: of the same tool, or of all tools."""

    call_id: str
    approved: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None
    approve_rest: Literal["tool", "all"] | None = None


class WaitingCall(BaseModel):
    """A call that awaits a person's decision (`POST /api/agent/approve`)."""

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    message: str = Field(description="What the call does, in words.", examples=["Updating total"])
    changes: list[ShownChange] = Field(description="The changes you would approve: old → new for each path.")


async def pending_calls(conn: Connection, agents: Mapping[UUID, str]) -> dict[UUID, WaitingCall]:
    """Return the pending calls of runs that await approval, by run id. `agents` maps run ids to agent names."""
    if not agents:
        return {}
    waiting = await tool_calls.waiting_calls(conn, list(agents))
    return {run_id: as_pending(agents[run_id], call) for run_id, call in waiting.items()}


def as_pending(agent: str, call: CallRow) -> WaitingCall:
    """Return a pending call for display. If this process does not have the agent, the message is the tool's name."""
    spec = AGENTS.get(agent)
    message = call.tool if spec is None else spec.toolset.summary(call.tool, call.arguments)
    changes = shown_changes(call.changes or [])
    return WaitingCall(call_id=call.id, tool=call.tool, input=call.arguments, message=message, changes=changes)


async def proposed_evidence(database: Database, scope: Scope, run_id: UUID) -> FoundEvidence:
    """Return the page locations of the values that a pending call would write. Empty for a call that writes no fields.
    Opens its own transactions. Raise NotFound if the run has no pending call."""
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        call = (await tool_calls.waiting_calls(conn, [run_id])).get(run_id)
    if call is None:
        raise NotFound("The run has no pending call. It was decided already, or the run has ended.")
    if run.agent not in AGENTS:
        return FoundEvidence()
    tools = AGENTS[run.agent].create_tools(run_context(database, scope, run))
    prepare = tools.actions[call.tool].prepare
    try:
        prepared = prepare and await prepare(tools.check(call.tool, call.arguments))
    except REFUSALS:  # the decision itself reports the error
        return FoundEvidence()
    evidence = getattr(prepared, "shown", None)
    return evidence if isinstance(evidence, FoundEvidence) else FoundEvidence()


async def decide(
    database: Database, scope: Scope, run_id: UUID, decision: ApprovalDecision, *, by_agent: bool = False
) -> int:
    """Decide a pending call, execute it if it is approved, and continue the run. Return the number of the last event
    before the decision.

    The call is executed with the permissions of the person who decides. `by_agent`: an agent decides for that person,
    which it may not in a run that an agent of theirs started.

    Raise ReadOnly, NotApprover, or SecondPersonNeeded (also for `approve_rest` if a second person decides each call);
    NotFound if the user can't see the run or call; Conflict if it is not pending; TargetChanged if its target changed
    since it was shown; Invalid if the tool does not accept the arguments.
    """
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        call = await tool_calls.find(conn, run_id, decision.call_id)
        refusal_reason = (await runs.approval_refusal_reason(conn, [run_id])).get(run_id, "not_found")
        is_own = by_agent and await runs.is_started_by_callers_agent(conn, run_id)
    if is_own and not refusal_reason:
        raise SecondPersonNeeded(
            "An agent cannot approve or reject what an agent of the same person started. Decide it in the web UI, or "
            "ask another person."
        )
    if call is None or refusal_reason:
        raise _refusal(run, "not_found" if call is None else refusal_reason)
    if call.status is not CallStatus.PENDING or run.status is not RunStatus.AWAITING_APPROVAL:
        raise Conflict("The call is not pending any more: it was decided, or its run has ended.")
    if decision.arguments is not None and not decision.approved:
        raise Invalid("A rejected call takes no `input`. Leave it out.")
    if decision.approve_rest is not None and not decision.approved:
        raise Invalid("`approve_rest` needs `approved: true`: a rejection cannot approve later calls.")
    if not decision.approved:
        return await _reject(database, scope, run, call, decision)
    return await _approve(database, scope, run, call, decision)


def _refusal(run: RunRow, refusal_reason: str) -> FieldmarkError:
    # Other members see a run of a thread only if the thread is shared.
    share_hint = "" if run.thread_id is None else " Share the conversation to let them see it."
    match refusal_reason:
        case "read_only":
            return ReadOnly("Viewers can't decide calls. Ask a member or an owner.")
        case "not_approver":
            return NotApprover(f"In this organisation only owners decide calls. Ask an owner.{share_hint}")
        case "second_person_needed":
            return SecondPersonNeeded(f"Another member must decide the calls of a run that you started.{share_hint}")
        case _:
            return NotFound("The call does not exist, or you may not see it.")


def _end_reporter(run: RunRow, call: CallRow) -> Callable[[Connection, ToolOutcome], Awaitable[None]]:
    toolset = AGENTS[run.agent].toolset if run.agent in AGENTS else Toolset()
    return end_reporter(run.id, tool_event(toolset, call.tool, call.id, call.arguments))


async def _reject(database: Database, scope: Scope, run: RunRow, call: CallRow, decision: ApprovalDecision) -> int:
    report_end = _end_reporter(run, call)
    async with database.as_user(scope) as conn:
        last = await runs.last_event(conn, run.id)
        await _record_decision(conn, run, call, decision, None)
        text = f"A person rejected this change. {decision.reason or ''}".strip()
        outcome = ToolOutcome(text, "refused", is_error=True)
        await report_end(conn, outcome)
        await runs.resume(conn, run.id)
    return last


async def _approve(database: Database, scope: Scope, run: RunRow, call: CallRow, decision: ApprovalDecision) -> int:
    if run.agent not in AGENTS:
        raise Conflict(f"This service has no agent {run.agent!r}. Decide the call in the service that started it.")
    edited = decision.arguments if decision.arguments != call.arguments else None
    arguments = call.arguments if edited is None else edited
    context = run_context(database, scope, run)
    tools = AGENTS[run.agent].create_tools(context)
    try:
        tools.check(call.tool, arguments)
    except ModelRetry as fault:
        raise Invalid(fault.text, fault.details) from None
    report_end = _end_reporter(run, replace(call, arguments=arguments))
    last = 0

    async def decide(conn: Connection) -> None:
        nonlocal last
        last = await runs.last_event(conn, run.id)
        if decision.approve_rest is not None:
            tool_names = [one.name for one in tools.tools.values() if one.asks]
            if not await runs.approve_later_calls(
                conn, run.id, [call.tool] if decision.approve_rest == "tool" else tool_names
            ):
                raise SecondPersonNeeded(
                    "In this organisation a second person decides each call. Leave out `approve_rest`."
                )
        await _record_decision(conn, run, call, decision, edited)
        await _check_target(conn, tools, call, edited)

    async def then(conn: Connection, outcome: ToolOutcome) -> None:
        if outcome.is_error and edited is not None:  # not decided yet: the person can correct the arguments
            refusal = {"path": "", "code": outcome.code, "message": outcome.sentence}
            errors = outcome.details.get("errors") or as_list(as_object(outcome.data).get("errors"))
            raise Invalid(outcome.sentence, {"errors": [refusal, *errors]})
        if outcome.code == "awaiting_runs":
            return
        await report_end(conn, outcome)
        await runs.resume(conn, run.id)

    try:
        tool_call = ToolCall(call.tool, call.id, arguments)
        await execute(tools, context, tool_call, started_by=StartedBy.PERSON, decide=decide, then=then)
    except _PreviewChanged as changed:
        changes = [change.as_json() for change in changed.now.changes]
        event = approval_event(
            run.id, call.id, call.tool, call.arguments, tools.summary(call.tool, call.arguments), changes
        )
        async with database.as_user(scope) as conn:
            await tool_calls.show_updated_call(conn, run.id, call.id, changed.now, event)
        raise _target_changed(call, changed) from None
    return last


class _PreviewChanged(Exception):
    """The data that a call changes has changed since the call was shown. `now` is the current preview, `chosen` that of
    the arguments that the person edited, if they caused the error."""

    def __init__(self, now: Preview, chosen: Preview | None = None) -> None:
        self.now = now
        self.chosen = chosen


async def _record_decision(
    conn: Connection, run: RunRow, call: CallRow, decision: ApprovalDecision, edited: dict[str, JsonValue] | None
) -> None:
    recorded = await tool_calls.start_decision(
        conn,
        run.id,
        call.id,
        seen_hash=call.arguments_hash,
        approved=decision.approved,
        reason=decision.reason,
        arguments=edited,
        arguments_hash=None if edited is None else hash_arguments(edited),
    )
    if not recorded:
        raise Conflict("The call is not pending any more: it was just decided.")


async def _check_target(
    conn: Connection,
    tools: RunTools,
    call: CallRow,
    edited: dict[str, JsonValue] | None,
) -> None:
    """Raise _PreviewChanged if the preview that the person saw is not valid any more. The preview showed the agent's
    arguments. Edited arguments may change other paths only if nothing in the target has changed since."""
    preview = tools.actions[call.tool].preview
    if preview is None or call.target_hash is None:
        return
    try:
        now = await preview(conn, tools.check(call.tool, call.arguments))
    except REFUSALS as error:  # the target does not exist any more
        now = Preview((), outcome_of_error(error).sentence)
    if now.target_hash != call.target_hash:
        raise _PreviewChanged(now)
    if edited is None or now.version == call.target_version:
        return
    with contextlib.suppress(*REFUSALS):  # the execution reports the error
        chosen = await preview(conn, tools.check(call.tool, edited))
        if not now.covers(chosen):
            raise _PreviewChanged(now, chosen)


def _target_changed(call: CallRow, changed: _PreviewChanged) -> TargetChanged:
    before = {str(one["path"]): one for one in call.changes or []}
    now = changed.now if changed.chosen is None else changed.chosen
    changes: list[JsonValue] = []
    for change in now.changes:
        (shown,) = shown_changes([change.as_json()])
        changes.append({**shown.model_dump(mode="json"), "shown": before.get(change.path, {}).get("old")})
    missing = before.keys() - {change.path for change in changed.now.changes}
    changes += [
        {"path": path, "old": None, "shown": before[path].get("old"), "new": before[path].get("new")}
        for path in sorted(missing)
    ]
    return TargetChanged(
        "The data that this call changes has changed since. Review the updated call and decide again.",
        details={"changes": changes},
    )


async def cancel(database: Database, scope: Scope, run_id: UUID) -> None:
    """Cancel a run and its child runs. Their writes are kept. Do nothing if the run has ended. Raise NotFound."""
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        if not run.status.is_final:
            await runs.cancel(conn, run_id, "The run was cancelled.")
