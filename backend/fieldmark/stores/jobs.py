"""The queue's jobs in Postgres, as far as one looks at them from outside."""

from __future__ import annotations

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import QueueDepthRow, fetch_all


async def depth(conn: Connection) -> list[QueueDepthRow]:
    """How many jobs there are by queue and status, of all tenants. Asked by the service, outside of any scope."""
    return await fetch_all(
        conn,
        QueueDepthRow,
        """select queue_name as queue, status::text as status, count(*) as jobs
           from queue.procrastinate_jobs group by 1, 2""",
    )
