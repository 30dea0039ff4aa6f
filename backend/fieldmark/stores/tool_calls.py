"""Tool calls of runs in Postgres: arguments, approval, proposed changes and result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.changes import Preview
from fieldmark.domain.events import EventBase
from fieldmark.domain.statuses import CallStatus
from fieldmark.stores.channels import notify_of_events
from fieldmark.stores.rows import fetch_all, fetch_one, ordered_json, value_of


@dataclass(frozen=True, slots=True)
class CallRow:
    """A tool call. `proposed` holds the agent's arguments if the user changed them. `changes`, `target_hash` and
    `target_version` are the preview that the user saw (domain/changes.py)."""

    id: str
    tool: str
    status: CallStatus
    arguments: dict[str, JsonValue]
    arguments_hash: str
    reason: str | None
    proposed: dict[str, JsonValue] | None
    decided_by: UUID | None
    changes: list[dict[str, JsonValue]] | None
    target_hash: str | None
    target_version: int | None
    result: str | None
    code: str | None
    data: JsonValue


@dataclass(frozen=True, slots=True)
class WaitingCallRow(CallRow):
    run_id: UUID


@dataclass(frozen=True, slots=True)
class ClaimedCall:
    """A call that this transaction has locked, with its result if it has run."""

    status: CallStatus
    result: str | None
    code: str | None
    data: JsonValue


_COLUMNS = """id, tool, status, arguments, arguments_hash, reason, proposed, decided_by, changes, target_hash,
    target_version, result, code, data"""


async def record(
    conn: Connection,
    *,
    run_id: UUID,
    fencing_token: int,
    org_id: UUID,
    call_id: str,
    tool: str,
    arguments: dict[str, JsonValue],
    arguments_hash: str,
    status: CallStatus,
    reason: str | None = None,
    preview: Preview | None = None,
) -> None:
    """Record a call as approved by policy, pending, or refused with a reason. A call that was recorded before is not
    changed. Raise Fenced if another worker has claimed the run."""
    changes = None if preview is None else Jsonb([change.as_json() for change in preview.changes])
    await conn.execute(
        "select private.record_call(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            run_id,
            fencing_token,
            call_id,
            org_id,
            tool,
            ordered_json(arguments),
            arguments_hash,
            status,
            reason,
            changes,
            None if preview is None else preview.target_hash,
            None if preview is None else preview.version,
        ),
    )


async def find(conn: Connection, run_id: UUID, call_id: str) -> CallRow | None:
    return await fetch_one(
        conn, CallRow, f"select {_COLUMNS} from public.tool_calls where run_id = %s and id = %s", (run_id, call_id)
    )


@dataclass(frozen=True, slots=True)
class RecordedCall:
    id: str
    tool: str
    status: CallStatus
    arguments: dict[str, JsonValue]
    code: str | None
    data: JsonValue
    # The beginning of the result, or of the reason of a refusal.
    output: str


async def list_ended(conn: Connection, run_id: UUID) -> list[RecordedCall]:
    """Return the finished and refused calls of a run in order."""
    return await fetch_all(
        conn,
        RecordedCall,
        """select id, tool, status, arguments, code, data, left(coalesce(result, reason, ''), 500) as output
           from public.tool_calls where run_id = %s and status in ('done', 'failed', 'refused')
           order by coalesce(finished_at, created_at), id""",
        (run_id,),
    )


async def carried_out_tools(conn: Connection, run_id: UUID) -> list[str]:
    """Return the tools of a run's calls that are done or wait for child runs."""
    cursor = await conn.execute(
        "select tool from public.tool_calls where run_id = %s and status in ('waiting', 'done')", (run_id,)
    )
    return [row["tool"] for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of an earlier run, with truncated texts. `arguments` is JSON. `result` is the reason if it was refused."""

    run_id: UUID
    tool: str
    status: CallStatus
    arguments: str
    result: str


async def past_calls(conn: Connection, run_ids: Sequence[UUID], max_characters: int) -> dict[UUID, list[PastCall]]:
    """Return the calls of runs in order, by run id."""
    rows = await fetch_all(
        conn,
        PastCall,
        """select run_id, tool, status, left(arguments::text, %(most)s) as arguments,
             left(coalesce(result, reason, ''), %(most)s) as result
           from public.tool_calls where run_id = any(%(runs)s) order by created_at, id""",
        {"most": max_characters, "runs": list(run_ids)},
    )
    found: dict[UUID, list[PastCall]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row)
    return found


async def waiting_calls(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, CallRow]:
    """Return the call that each of these runs waits for, by run id. Runs that do not await approval are left out."""
    rows = await fetch_all(
        conn,
        WaitingCallRow,
        f"""select r.id as run_id, {", ".join(f"c.{name.strip()}" for name in _COLUMNS.split(","))}
            from public.runs as r join public.tool_calls as c on c.run_id = r.id and c.id = r.waiting_call
            where r.id = any(%s) and r.status = 'awaiting_approval'""".encode(),
        (list(run_ids),),
    )
    return {row.run_id: row for row in rows}


async def list_ended_decided_calls(conn: Connection, run_id: UUID) -> list[CallRow]:
    """Return the finished and refused calls of a run that a user decided, in the order of the decisions."""
    return await fetch_all(
        conn,
        CallRow,
        f"""select {_COLUMNS} from public.tool_calls
                where run_id = %s and decided_by is not null and status in ('done', 'failed', 'refused')
                order by decided_at""",
        (run_id,),
    )


async def start_decision(
    conn: Connection,
    run_id: UUID,
    call_id: str,
    *,
    seen_hash: str,
    approved: bool,
    reason: str | None,
    arguments: dict[str, JsonValue] | None,
    arguments_hash: str | None,
) -> bool:
    """Approve or refuse a pending call. Later writes of this transaction are journalled as that call's. Return False if
    the call is not pending."""
    status = await value_of(
        conn,
        "select private.start_decision(%s, %s, %s, %s, %s, %s, %s)",
        (
            run_id,
            call_id,
            seen_hash,
            approved,
            reason,
            None if arguments is None else ordered_json(arguments),
            arguments_hash,
        ),
    )
    return status is not None


async def show_updated_call(conn: Connection, run_id: UUID, call_id: str, preview: Preview, event: EventBase) -> None:
    """Store a new preview of a pending call and append `event`. The call stays pending."""
    changes = Jsonb([change.as_json() for change in preview.changes])
    await conn.execute(
        "select private.show_updated_call(%s, %s, %s, %s, %s, %s::json)",
        (run_id, call_id, changes, preview.target_hash, preview.version, json.dumps(event.flat())),
    )
    notify_of_events(conn, run_id)


async def claim(
    conn: Connection, *, run_id: UUID, fencing_token: int, call_id: str, tool: str, arguments_hash: str
) -> ClaimedCall | None:
    """Lock a call for this transaction. Return None if no such call was recorded. Raise Fenced if another worker has
    claimed the run. Later writes of this transaction are journalled as this call's."""
    return await fetch_one(
        conn,
        ClaimedCall,
        "select status, result, code, data from private.claim_call(%s, %s, %s, %s, %s)",
        (run_id, fencing_token, call_id, tool, arguments_hash),
    )


async def has_code(conn: Connection, run_id: UUID, tool: str, code: str) -> bool:
    """Return whether a call of a tool in this run returned a code. A call that did the tool's work as well has that
    code in its data, by the tool's name."""
    query = """select from public.tool_calls
               where run_id = %(run)s and (tool = %(tool)s and code = %(code)s or data ->> %(tool)s = %(code)s)"""
    return (await conn.execute(query, {"run": run_id, "tool": tool, "code": code})).rowcount > 0


async def has_approved_write(conn: Connection, run_id: UUID, tool: str | None = None) -> bool:
    """Return whether this run has done a call, of this tool if given, that a user approved."""
    query = """select from public.tool_calls where run_id = %s and approved_by = 'person' and status = 'done'
                 and (%s::text is null or tool = %s)"""
    return (await conn.execute(query, (run_id, tool, tool))).rowcount > 0


async def was_called(conn: Connection, run_id: UUID, tool: str) -> bool:
    """Return whether this run has called a tool, with whatever result."""
    query = "select from public.tool_calls where run_id = %s and tool = %s"
    return (await conn.execute(query, (run_id, tool))).rowcount > 0


async def last_done(conn: Connection, run_id: UUID, tools: Sequence[str]) -> CallRow | None:
    return await fetch_one(
        conn,
        CallRow,
        f"""select {_COLUMNS} from public.tool_calls where run_id = %s and tool = any(%s) and status = 'done'
                order by finished_at desc, id desc limit 1""",
        (run_id, list(tools)),
    )


async def finish(
    conn: Connection,
    *,
    run_id: UUID,
    call_id: str,
    result: str,
    failed: bool,
    code: str,
    data: JsonValue = None,
    events: Sequence[EventBase] = (),
) -> None:
    """Record a call's result and append its events. A repeated call gets the same result."""
    await conn.execute(
        "select private.finish_call(%s, %s, %s, %s, %s, %s, %s::json)",
        (
            run_id,
            call_id,
            result,
            failed,
            code,
            None if data is None else Jsonb(data),
            json.dumps([event.flat() for event in events]) if events else None,
        ),
    )
    if events:
        notify_of_events(conn, run_id)
