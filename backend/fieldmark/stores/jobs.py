"""The queue's jobs in Postgres, as far as one looks at them from outside."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

Row = dict[str, Any]


async def depth(conn: AsyncConnection[Row]) -> list[Row]:
    """How many jobs there are: {queue, status, jobs}, of all tenants. Asked by the service, outside of any scope."""
    cursor = await conn.execute(
        """select queue_name as queue, status::text as status, count(*) as jobs
           from queue.procrastinate_jobs group by 1, 2"""
    )
    return await cursor.fetchall()
