"""Deletes expired records of runs and jobs, and the data of deleted organisations."""

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
"""Time limit of one task. The next maintenance continues it."""


async def clear_up(database: Database, settings: Settings) -> None:
    """Run each task in batches, one transaction each, until nothing is left or its time is up."""
    for batch in _tasks(settings):
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until:
            async with database.as_service() as conn:
                # A lost batch is repeated, so commits need not wait for the disk.
                await conn.execute("set local synchronous_commit = off")
                if not await batch(conn):
                    break


def _tasks(settings: Settings) -> list[_Batch]:
    keep = timedelta(days=settings.keep_days)
    forget = (
        ((retention.delete_old_run_records, retention.delete_old_jobs, retention.delete_old_changes)) if keep else ()
    )
    return [*(_deletion_batch(one, keep) for one in forget), retention.clear_organisations]


def _deletion_batch(forget: Callable[[Connection, timedelta], Awaitable[int]], keep: timedelta) -> _Batch:
    return lambda conn: forget(conn, keep)
