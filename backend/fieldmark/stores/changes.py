"""The feed of changes in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import ChangeType
from fieldmark.stores.rows import large_rows, value_of


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened."""

    id: Annotated[UUID, Field(description="Also the `webhook-id` of its deliveries.")]
    number: Annotated[int, Field(description="Its position in the feed of the organisation: 1, 2, 3 …")]
    type: ChangeType
    created_at: datetime
    data: Annotated[
        dict[str, Any],
        Field(
            description="The ids (`document_id`, `extraction_id`, `run_id`, `stack_id`) and what they stand for, as it "
            "is now: `document` with your `external_id` and `metadata`; `extraction` with `fields`, the "
            "`initial_fields` as the agent wrote them, and the `edits` by people; `run`; `table`. What is deleted is "
            "left out."
        ),
    ]


async def publish(conn: Connection) -> int:
    """Number what was committed and queue it for webhooks. Return how many. Needs a connection as the service."""
    return await value_of(conn, "select private.publish_changes()")


async def last_number(conn: Connection, org_id: UUID) -> int:
    return await value_of(conn, "select coalesce(max(number), 0) from public.changes where org_id = %s", (org_id,))


async def list_after(
    conn: Connection, org_id: UUID, after: int, *, types: list[ChangeType], limit: int
) -> list[Change]:
    """Return published changes with higher numbers, the lowest first."""
    query = """
        select c.id, c.number, c.type, c.created_at, private.change_data(c) as data from public.changes as c
        where c.org_id = %(org)s and c.number > %(after)s and (%(types)s::text[] = '{}' or c.type = any (%(types)s))
        order by c.number limit %(limit)s"""
    parameters = {"org": org_id, "after": after, "types": [str(one) for one in types], "limit": limit}
    return await large_rows(conn, Change, query, parameters)
