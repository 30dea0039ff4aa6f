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
    refused_because: str | None,
) -> None:
    """Record a call as admitted by policy, or as refused with its reason. A call that is there stays as it is.

    Raises Fenced if another worker has taken the run."""
    await conn.execute(
        "select private.enter_call(%s, %s, %s, %s, %s, %s, %s, %s)",
        (run_id, attempt, call_id, org_id, tool, Jsonb(arguments), arguments_hash, refused_because),
    )


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
