"""Statistics of the job queue."""

from __future__ import annotations

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import QueueDepthRow, fetch_all


async def depth(conn: Connection) -> list[QueueDepthRow]:
    """Return the number of jobs of all tenants by queue and status. Needs a connection as the service."""
    return await fetch_all(
        conn,
        QueueDepthRow,
        """select queue_name as queue, status::text as status, count(*) as jobs
           from queue.procrastinate_jobs group by 1, 2""",
    )
