"""Deletes expired data of all tenants in batches. All functions need a connection as the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import value_of

_ENDED_JOBS: Final = """
with due as (
  select j.id from queue.procrastinate_jobs as j
  where j.status in ('succeeded', 'failed', 'cancelled', 'aborted') and not exists (
    select from queue.procrastinate_events as e where e.job_id = j.id and e.at >= now() - %s::interval)
  order by j.id limit 500 for update of j skip locked)
delete from queue.procrastinate_jobs as j using due where j.id = due.id
"""


def _batch_deletion(function: str) -> Callable[[Connection, timedelta], Awaitable[int]]:
    async def delete(conn: Connection, keep: timedelta) -> int:
        return await value_of(conn, f"select private.{function}(%s) as found".encode(), (keep,)) or 0

    return delete


# Returns how many rows were found. 0: nothing is expired, or another worker is deleting.
delete_old_run_records = _batch_deletion("delete_old_run_records")
delete_old_changes = _batch_deletion("delete_old_changes")


async def delete_old_jobs(conn: Connection, keep: timedelta) -> int:
    """Delete jobs that ended longer ago than `keep`. These are the failed ones: others are deleted when they end."""
    await conn.execute("set local search_path = pg_catalog, queue")  # the queue's triggers use unqualified names
    return (await conn.execute(_ENDED_JOBS, (keep,))).rowcount


async def clear_organisations(conn: Connection) -> int:
    """Delete a batch of a deleted organisation's data. Return the number of rows found."""
    return await value_of(conn, "select private.clear_organisations() as found") or 0
