"""What is cleared away for all tenants, a batch at a time. Asked by the service, outside of any scope."""

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


def _of(function: str) -> Callable[[Connection, timedelta], Awaitable[int]]:
    async def forget(conn: Connection, keep: timedelta) -> int:
        return await value_of(conn, f"select private.{function}(%s) as found".encode(), (keep,)) or 0

    return forget


# Each answers how many it found; 0: nothing more is due, or another worker has the task.
delete_old_run_records = _of("delete_old_run_records")


async def forget_jobs(conn: Connection, keep: timedelta) -> int:
    """Take away jobs that ended longer ago than this: those that gave up, since the others go at once."""
    await conn.execute("set local search_path = pg_catalog, queue")  # the queue's own triggers name no schema
    return (await conn.execute(_ENDED_JOBS, (keep,))).rowcount


async def clear_organisations(conn: Connection) -> int:
    """Take away some of what an organisation has left that was given up."""
    return await value_of(conn, "select private.clear_organisations() as found") or 0
