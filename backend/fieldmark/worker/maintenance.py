"""What the workers clear away for all tenants: old events, calls, conversations and jobs, organisations that go."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeAlias

from fieldmark.db.pool import Connection, Database
from fieldmark.settings import Settings
from fieldmark.stores import retention

_Batch: TypeAlias = Callable[[Connection], Awaitable[int]]

MOST_SECONDS: Final = 10.0
"""How long one task goes on at a time: what is left then waits for the next time."""


async def clear_up(database: Database, settings: Settings) -> None:
    """Do each task in batches, a transaction each, until nothing more is due."""
    for batch in _tasks(settings):
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until:
            async with database.as_service() as conn:
                # What is cut off is done again, so nothing here waits for the disk.
                await conn.execute("set local synchronous_commit = off")
                if not await batch(conn):
                    break


def _tasks(settings: Settings) -> list[_Batch]:
    days = timedelta(days=1)
    kept = (
        (retention.cancel_stale_approvals, settings.approval_hours, timedelta(hours=1)),
        (retention.forget_events, settings.keep_events, days),
        (retention.forget_calls, settings.keep_calls, days),
        (retention.forget_conversations, settings.keep_conversations, days),
        (retention.forget_idle_threads, settings.keep_conversations, days),
        (retention.forget_jobs, settings.keep_jobs, days),
    )
    tasks = [_kept(forget, many * unit) for forget, many, unit in kept if many]
    return [*tasks, retention.clear_organisations]


def _kept(forget: Callable[[Connection, timedelta], Awaitable[int]], keep: timedelta) -> _Batch:
    return lambda conn: forget(conn, keep)
