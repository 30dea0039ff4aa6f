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
    """Delete expired records, one kind after the other."""
    if keep := timedelta(days=settings.keep_days):
        for forget in (retention.delete_old_run_records, retention.delete_old_jobs, retention.delete_old_changes):
            await _delete_in_batches(database, _deletion_batch(forget, keep))


async def delete_organisations(database: Database) -> None:
    """Delete the data of deleted organisations."""
    await _delete_in_batches(database, retention.clear_organisations)


async def _delete_in_batches(database: Database, batch: _Batch) -> None:
    """Repeat a batch, each time in a transaction of its own, until nothing is left or the time is up."""
    until = time.monotonic() + MOST_SECONDS
    while time.monotonic() < until:
        async with database.as_service() as conn:
            # A lost batch is repeated, so commits need not wait for the disk.
            await conn.execute("set local synchronous_commit = off")
            if not await batch(conn):
                return


def _deletion_batch(forget: Callable[[Connection, timedelta], Awaitable[int]], keep: timedelta) -> _Batch:
    return lambda conn: forget(conn, keep)
