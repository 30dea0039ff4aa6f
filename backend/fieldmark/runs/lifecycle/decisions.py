"""What people decide of runs: a call that waits is approved, rejected or changed; a run is cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import JsonValue

from fieldmark.agents.registry import AGENTS
from fieldmark.db.pool import Connection, Database
from fieldmark.errors import Conflict, Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import ENDED
from fieldmark.runs.lifecycle.absent import absent
from fieldmark.stores import runs, tool_calls
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import hash_of


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person says of one call. `arguments` replace the agent's own; `reason` is what the agent is told."""

    call_id: str
    approved: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that waits for a person: which tool, with which arguments, and in words."""

    call_id: str
    tool: str
    arguments: dict[str, JsonValue]
    message: str


async def waiting(database: Database, scope: Scope, run_id: UUID) -> Proposal | None:
    """What a run waits for; None if for nothing. Raises NotFound for a run that is not this user's, Gone for one that
    was."""
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        if run is None:
            raise await absent(conn, scope, run_id)
        if run["created_by"] != scope.user_id:
            raise NotFound("There is no such run.")
        return (await proposals(conn, [run])).get(run_id)


async def proposals(conn: Connection, rows: Sequence[dict[str, Any]]) -> dict[UUID, Proposal]:
    """What those of these runs wait for that wait for a person, by run."""
    agents = {row["id"]: row["agent"] for row in rows if row["status"] == "awaiting_approval"}
    if not agents:
        return {}
    return {
        run_id: Proposal(
            call["call_id"],
            call["tool"],
            call["arguments"],
            AGENTS[agents[run_id]].toolset.says(call["tool"], call["arguments"]),
        )
        for run_id, call in (await tool_calls.waiting(conn, list(agents))).items()
    }


async def decide(database: Database, scope: Scope, run_id: UUID, decision: Decision) -> int:
    """Decide the call that a run waits for; the run goes on. Answers the number of the last event before that.

    Raises NotFound for a run or call that is not this user's, Gone for a run that was, Conflict for one that waits no
    more, Invalid for arguments that the tool would not take.
    """
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        if run is None:
            raise await absent(conn, scope, run_id)
        call = await tool_calls.get(conn, run_id, decision.call_id)
        if call is None or run["created_by"] != scope.user_id:
            raise NotFound("There is no such call that waits for you.")
        if call["status"] != "pending" or run["status"] != "awaiting_approval":
            raise Conflict("This call waits no more: it was decided, or its run has ended.")
        arguments = decision.arguments if decision.approved and decision.arguments != call["arguments"] else None
        if decision.arguments is not None and not decision.approved:
            raise Invalid("A rejected call needs no input.")
        if arguments is not None:
            try:
                AGENTS[run["agent"]].toolset.check(call["tool"], arguments)
            except ModelRetry as fault:
                raise Invalid(str(fault)) from None
        last = await runs.last_event(conn, run_id)
        decided = await tool_calls.decide(
            conn,
            run_id,
            decision.call_id,
            seen_hash=call["arguments_hash"],
            approved=decision.approved,
            reason=decision.reason,
            arguments=arguments,
            arguments_hash=None if arguments is None else hash_of(arguments),
        )
        if not decided:
            raise Conflict("This call waits no more: it was decided just now.")
        return last


async def cancel(database: Database, scope: Scope, run_id: UUID) -> None:
    """End a run, whatever it is at. What it wrote stays. Nothing happens to one that has ended; raises NotFound
    or Gone."""
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        if run is None:
            raise await absent(conn, scope, run_id)
        if run["status"] in ENDED - {"awaiting_approval"}:
            return
        await runs.cancel(conn, run_id, "The run was cancelled.")
