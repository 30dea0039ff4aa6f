"""Runs and their events in Postgres."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql

from fieldmark.domain.events import Event
from fieldmark.identity.scope import Scope

Row = dict[str, Any]

EVENTS_CHANNEL = "fieldmark_run_events"
WORK_CHANNEL = "fieldmark_work"
"""Where whoever works on a run is told to look at it again: it was cancelled or deleted, or somebody watches."""

_COLUMNS = (
    "id, created_by, agent, task, document_id, extraction_id, instructions, approval, auto_approved_tools, model, "
    "max_cost_usd, max_turns, status, attempt, tries, session_id, waiting_call, created_at, started_at, finished_at, "
    "answer, error, error_code, private.cost_of_run(id) as cost_usd, private.usage_of_run(id) as usage"
)


async def add(conn: AsyncConnection[Row], scope: Scope, **columns: Any) -> UUID:
    """Insert a run; its trigger puts it into the queue as soon as its document is read.

    With an `idempotency_key` that this user has used before, nothing is inserted and the earlier run's id is answered.
    """
    given = {"org_id": scope.org_id, **columns}
    query = sql.SQL(
        "insert into public.runs ({}) values ({}) on conflict (org_id, created_by, idempotency_key) do nothing "
        "returning id"
    ).format(sql.SQL(", ").join(map(sql.Identifier, given)), sql.SQL(", ").join(map(sql.Placeholder, given)))
    cursor = await conn.execute(query, given)
    row = await cursor.fetchone()
    if row is None:
        row = await by_key(conn, scope, columns["idempotency_key"])
    assert row is not None
    return row["id"]


async def by_key(conn: AsyncConnection[Row], scope: Scope, idempotency_key: str) -> Row | None:
    """The run that this user started with an idempotency key."""
    cursor = await conn.execute(
        f"select {_COLUMNS} from public.runs where org_id = %s and created_by = %s and idempotency_key = %s",
        (scope.org_id, scope.user_id, idempotency_key),
    )
    return await cursor.fetchone()


async def get(conn: AsyncConnection[Row], run_id: UUID) -> Row | None:
    """One run of the caller's organisation."""
    cursor = await conn.execute(f"select {_COLUMNS} from public.runs where id = %s", (run_id,))
    return await cursor.fetchone()


async def was_charged(conn: AsyncConnection[Row], scope: Scope, run_id: UUID) -> bool:
    """Whether a message of a run was charged to this user: known of their deleted runs too, since what was used
    outlives the run."""
    cursor = await conn.execute(
        "select exists (select from public.usage where run_id = %s and created_by = %s) as charged",
        (run_id, scope.user_id),
    )
    row = await cursor.fetchone()
    return bool(row and row["charged"])


async def list_runs(
    conn: AsyncConnection[Row], scope: Scope, *, status: str | None, limit: int, before: UUID | None
) -> list[Row]:
    """The user's newest `limit` runs of a status (of any without one), or those that follow `before` in that order."""
    cursor = await conn.execute(
        f"""select {_COLUMNS} from public.runs
            where org_id = %(org)s and created_by = %(user)s and (%(status)s::text is null or status = %(status)s) and (
                %(before)s::uuid is null
                or (created_at, id) < (select created_at, id from public.runs where id = %(before)s))
            order by created_at desc, id desc limit %(limit)s""",
        {"org": scope.org_id, "user": scope.user_id, "status": status, "before": before, "limit": limit},
    )
    return await cursor.fetchall()


async def last_event(conn: AsyncConnection[Row], run_id: UUID) -> int:
    """The number of a run's last event; 0 before the first."""
    cursor = await conn.execute(
        "select coalesce(max(number), 0) as number from public.run_events where run_id = %s", (run_id,)
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["number"]


async def count_waiting(conn: AsyncConnection[Row]) -> int:
    """How many runs wait for a person, of all tenants. Asked by the service, outside of any scope."""
    cursor = await conn.execute("select private.waiting_runs() as waiting")
    row = await cursor.fetchone()
    assert row is not None
    return row["waiting"]


async def scope_of(conn: AsyncConnection[Row], run_id: UUID) -> Scope | None:
    """On whose behalf a run acts. Asked by the service, outside of any scope."""
    cursor = await conn.execute("select user_id, org_id from private.scope_of_run(%s)", (run_id,))
    row = await cursor.fetchone()
    return Scope(row["user_id"], row["org_id"]) if row else None


async def take(conn: AsyncConnection[Row], run_id: UUID) -> Row | None:
    """Take a run up: `running`, with the next attempt's number. None if it has ended or is out of sight."""
    cursor = await conn.execute(
        f"""update public.runs set status = 'running', attempt = attempt + 1, tries = tries + 1,
                held_at = null, session_id = coalesce(session_id, gen_random_uuid()),
                started_at = coalesce(started_at, now())
            where id = %s and status in ('queued', 'running') returning {_COLUMNS}""",
        (run_id,),
    )
    return await cursor.fetchone()


async def fence(conn: AsyncConnection[Row], run_id: UUID, attempt: int) -> None:
    """Hold the run for this transaction, or raise Fenced if this attempt is not the one at work."""
    await conn.execute("select private.fence(%s, %s)", (run_id, attempt))


async def watched(conn: AsyncConnection[Row], run_id: UUID, attempt: int) -> float:
    """Like `fence`; answers for how many seconds more somebody wants the run's words as they come."""
    cursor = await conn.execute(
        """select private.fence(%(id)s, %(attempt)s), coalesce(extract(epoch from (
                  select max(until) from public.run_watchers where run_id = %(id)s
               ) - clock_timestamp()), 0)::float8 as seconds""",
        {"id": run_id, "attempt": attempt},
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["seconds"]


async def watch(conn: AsyncConnection[Row], run_id: UUID, channel: str) -> None:
    """Have the run's words told on a channel as they come, for half a minute. Raises NotFound."""
    await conn.execute("select private.watch_run(%s, %s)", (run_id, channel))


async def tell_watchers(conn: AsyncConnection[Row], run_id: UUID, attempt: int, pieces: list[str]) -> None:
    """Tell pieces of the run's words, each less than 7,900 bytes, to whoever watches it. Raises Fenced."""
    await conn.execute("select private.tell_watchers(%s, %s, %s)", (run_id, attempt, pieces))


async def record_conversation(conn: AsyncConnection[Row], run_id: UUID, session_id: UUID) -> None:
    """The conversation that a run is in, from where it is gone on with if it is broken off."""
    await conn.execute("update public.runs set session_id = %s where id = %s", (session_id, run_id))


async def read_pages(conn: AsyncConnection[Row], run_id: UUID, first: int, last: int) -> None:
    """The run has been shown pages `first` to `last`, to their ends."""
    await conn.execute(
        """update public.runs set pages_read = pages_read + int4multirange(int4range(%(first)s, %(last)s, '[]'))
           where id = %(id)s and not pages_read @> int4range(%(first)s, %(last)s, '[]')""",
        {"id": run_id, "first": first, "last": last},
    )


async def append_event(conn: AsyncConnection[Row], run_id: UUID, event: Event) -> None:
    """Add one event to the run's; readers hear of it when the transaction commits."""
    await conn.execute("select private.append_event(%s, %s::json)", (run_id, json.dumps(event.flat())))


async def append_events(conn: AsyncConnection[Row], run_id: UUID, attempt: int, events: Sequence[Event]) -> None:
    """Add several in their order, as the attempt that is at work: raises Fenced if this one is not."""
    await conn.execute(
        """select private.fence(%s, %s), private.append_event(%s, said.body)
           from (select body from unnest(%s::json[]) with ordinality as one (body, n) order by n) as said""",
        (run_id, attempt, run_id, [json.dumps(event.flat()) for event in events]),
    )


async def news(conn: AsyncConnection[Row], run_id: UUID, number: int, limit: int) -> tuple[str, list[Row]] | None:
    """How a run stands, and its events behind `number` in order: (status, [{number, body: JSON text}]). One look: of a
    run that has ended, no event comes after the last of them. None if there is no such run."""
    cursor = await conn.execute(
        """select run.status, event.number, event.body
           from public.runs as run
           left join lateral (
             select number, body::text as body from public.run_events
             where run_id = run.id and number > %s order by number limit %s
           ) as event on true
           where run.id = %s order by event.number""",
        (number, limit, run_id),
    )
    rows = await cursor.fetchall()
    return (rows[0]["status"], [row for row in rows if row["number"] is not None]) if rows else None


async def finish(
    conn: AsyncConnection[Row],
    run_id: UUID,
    status: str,
    *,
    answer: str | None = None,
    error: str | None = None,
    error_code: str | None = None,
) -> None:
    """Record how a run ended."""
    await conn.execute(
        """update public.runs set status = %s, answer = %s, error = %s, error_code = %s,
               waiting_call = null, finished_at = now()
           where id = %s""",
        (status, answer, error, error_code, run_id),
    )


async def wait(conn: AsyncConnection[Row], run_id: UUID, call_id: str) -> None:
    """The run waits for a person to decide a call."""
    await conn.execute(
        "update public.runs set status = 'awaiting_approval', waiting_call = %s where id = %s", (call_id, run_id)
    )


async def release(conn: AsyncConnection[Row], run_id: UUID) -> None:
    """Put a run back into the queue, for another worker; it was not at fault, so the try does not count."""
    await conn.execute(
        "update public.runs set status = 'queued', tries = greatest(tries - 1, 0) where id = %s", (run_id,)
    )


async def cancel(conn: AsyncConnection[Row], run_id: UUID, reason: str) -> bool:
    """End a run whoever is at work on it. False if it has ended before."""
    cursor = await conn.execute("select private.cancel_run(%s, %s) as cancelled", (run_id, reason))
    row = await cursor.fetchone()
    return bool(row and row["cancelled"])


async def supersede(conn: AsyncConnection[Row], extraction_id: UUID, reason: str) -> None:
    """End the runs on an extraction that wait for a person."""
    await conn.execute(
        """select private.cancel_run(id, %s) from public.runs
           where extraction_id = %s and status = 'awaiting_approval'""",
        (reason, extraction_id),
    )


async def sweep(
    conn: AsyncConnection[Row], *, approvals_live: timedelta | None, sessions_live: timedelta | None
) -> None:
    """End what waited for too long, forget old conversations. Called by the service, outside of any scope."""
    await conn.execute("select private.sweep(%s, %s)", (approvals_live, sessions_live))


async def fail(conn: AsyncConnection[Row], run_id: UUID, error: str, code: str) -> None:
    """End a run that nobody is working on. Called by the service, outside of any scope."""
    await conn.execute("select private.fail_run(%s, %s, %s)", (run_id, error, code))
