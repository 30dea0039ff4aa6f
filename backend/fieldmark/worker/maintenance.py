"""What the workers delete for all tenants: what ended runs and failed jobs left, and deleted organisations."""

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
    keep = timedelta(days=settings.keep_days)
    forget = (retention.delete_old_run_records, retention.forget_jobs) if keep else ()
    return [*(_kept(one, keep) for one in forget), retention.clear_organisations]


def _kept(forget: Callable[[Connection, timedelta], Awaitable[int]], keep: timedelta) -> _Batch:
    return lambda conn: forget(conn, keep)
