"""The ledger: every write that an agent asked for, who admitted it, and what it answered."""

from __future__ import annotations

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
    org_id: UUID,
    call_id: str,
    tool: str,
    arguments: dict[str, JsonValue],
    arguments_hash: str,
    refused_because: str | None,
) -> None:
    """Record a call as admitted by policy, or as refused with its reason. A call that is there stays as it is."""
    await conn.execute(
        """insert into public.calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, reason)
           values (%s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict (run_id, id) do nothing""",
        (
            run_id, call_id, org_id, tool, Jsonb(arguments), arguments_hash,
            "refused" if refused_because else "admitted", None if refused_because else "policy", refused_because,
        ),
    )  # fmt: skip


async def claim(conn: AsyncConnection[Row], run_id: UUID, call_id: str) -> Row | None:
    """Lock a call for this transaction: {tool, arguments_hash, status, result}. None if the gate never entered it."""
    cursor = await conn.execute(
        "select tool, arguments_hash, status, result from public.calls where run_id = %s and id = %s for update",
        (run_id, call_id),
    )
    return await cursor.fetchone()


async def mark_transaction(conn: AsyncConnection[Row], run_id: UUID, call_id: str) -> None:
    """Say for whom this transaction writes: the journal's trigger reads it."""
    await conn.execute(
        "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', %s, true)",
        (str(run_id), call_id),
    )


async def finish(conn: AsyncConnection[Row], run_id: UUID, call_id: str, *, result: str, failed: bool) -> None:
    """Record a call's answer, which a repetition of the call will be given again."""
    await conn.execute(
        """update public.calls set status = %s, result = %s, finished_at = clock_timestamp()
           where run_id = %s and id = %s""",
        ("failed" if failed else "done", result, run_id, call_id),
    )
