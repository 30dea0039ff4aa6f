"""The ledger: every write that an agent asked for, who admitted it, and what it answered."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from pydantic import JsonValue

Row = dict[str, Any]


async def enter(
    conn: AsyncConnection[Row],
    *,
    run_id: UUID,
    attempt: int,
    org_id: UUID,
    call_id: str,
    tool: str,
    arguments: dict[str, JsonValue],
    arguments_hash: str,
    status: str,
    reason: str | None = None,
) -> None:
    """Record a call: `admitted` by policy, `pending` for a person, or `refused` for a reason. A call that is there
    stays as it is. Raises Fenced if another worker has taken the run."""
    await conn.execute(
        "select private.enter_call(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (run_id, attempt, call_id, org_id, tool, Jsonb(arguments), arguments_hash, status, reason),
    )


async def get(conn: AsyncConnection[Row], run_id: UUID, call_id: str) -> Row | None:
    """One call: {tool, status, arguments, arguments_hash, reason, proposed}."""
    cursor = await conn.execute(
        """select tool, status, arguments, arguments_hash, reason, proposed from public.tool_calls
           where run_id = %s and id = %s""",
        (run_id, call_id),
    )
    return await cursor.fetchone()


async def waiting(conn: AsyncConnection[Row], run_ids: list[UUID]) -> dict[UUID, Row]:
    """What those of the runs wait for that wait for a person, by run: {call_id, tool, arguments}."""
    cursor = await conn.execute(
        """select r.id, c.id as call_id, c.tool, c.arguments from public.runs as r
           join public.tool_calls as c on c.run_id = r.id and c.id = r.waiting_call
           where r.id = any(%s) and r.status = 'awaiting_approval'""",
        (run_ids,),
    )
    return {row["id"]: row async for row in cursor}


async def decide(
    conn: AsyncConnection[Row],
    run_id: UUID,
    call_id: str,
    *,
    seen_hash: str,
    approved: bool,
    reason: str | None,
    arguments: dict[str, JsonValue] | None,
    arguments_hash: str | None,
) -> bool:
    """Decide a call that waits, as the user of its run; the run goes on. False if it waits no more, or never did."""
    cursor = await conn.execute(
        "select private.decide_call(%s, %s, %s, %s, %s, %s, %s) as decided",
        (run_id, call_id, seen_hash, approved, reason, None if arguments is None else Jsonb(arguments), arguments_hash),
    )
    row = await cursor.fetchone()
    return row is not None and row["decided"] is not None


async def claim(
    conn: AsyncConnection[Row], *, run_id: UUID, attempt: int, call_id: str, tool: str, arguments_hash: str
) -> Row | None:
    """Lock the entry of exactly this call for this transaction: {status, result}. None if the gate entered none such.

    Raises Fenced if another worker has taken the run. What the transaction writes from here on is journalled as this
    call's."""
    cursor = await conn.execute(
        "select status, result from private.claim_call(%s, %s, %s, %s, %s)",
        (run_id, attempt, call_id, tool, arguments_hash),
    )
    return await cursor.fetchone()


_SAID = {"unread_pages": "Not read in this run:", "completed": "The extraction is completed."}


async def has_code(conn: AsyncConnection[Row], run_id: UUID, tool: str, code: str) -> bool:
    """Whether a call of a tool has answered with a code in this run. (Until it keeps codes: by how it begins.)"""
    cursor = await conn.execute(
        "select from public.tool_calls where run_id = %s and tool = %s and starts_with(result, %s)",
        (run_id, tool, _SAID[code]),
    )
    return cursor.rowcount > 0


async def finish(
    conn: AsyncConnection[Row],
    *,
    run_id: UUID,
    call_id: str,
    result: str,
    failed: bool,
    event: dict[str, Any] | None = None,
) -> None:
    """Record a call's answer, which a repetition of the call will be given again, and the event that tells of it."""
    await conn.execute(
        "select private.finish_call(%s, %s, %s, %s, %s::json)",
        (run_id, call_id, result, failed, None if event is None else json.dumps(event)),
    )
