"""The feed of changes in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import ChangeType
from fieldmark.stores.rows import large_rows, value_of


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A published change. `data` is what it is about, as it is now."""

    id: UUID
    number: int
    type: ChangeType
    created_at: datetime
    data: dict[str, Any]


async def publish(conn: Connection) -> int:
    """Number what was committed and queue it for webhooks. Return how many. Needs a connection as the service."""
    return await value_of(conn, "select private.publish_changes()")


async def last_number(conn: Connection, org_id: UUID) -> int:
    return await value_of(conn, "select coalesce(max(number), 0) from public.changes where org_id = %s", (org_id,))


async def list_after(
    conn: Connection, org_id: UUID, after: int, *, types: list[ChangeType], limit: int
) -> list[ChangeRow]:
    """Return published changes with higher numbers, the lowest first."""
    query = """
        select c.id, c.number, c.type, c.created_at, private.change_data(c) as data from public.changes as c
        where c.org_id = %(org)s and c.number > %(after)s and (%(types)s::text[] = '{}' or c.type = any (%(types)s))
        order by c.number limit %(limit)s"""
    parameters = {"org": org_id, "after": after, "types": [str(one) for one in types], "limit": limit}
    return await large_rows(conn, ChangeRow, query, parameters)
