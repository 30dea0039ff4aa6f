"""Extractions that follow another version of a schema, in Postgres, and what lets them follow this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.stores.rows import Position, cursor_of


@dataclass(frozen=True, slots=True)
class FollowerRow:
    """An extraction that follows a version of a schema."""

    id: UUID
    document_id: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FollowedVersionRow:
    """A version of a schema, and how many extractions follow it."""

    schema_revid: UUID
    number: int
    schema: JsonObject
    extractions: int


async def followed_versions(
    conn: Connection, schema_id: UUID, other_than: UUID | None, *, limit: int, max_counted: int
) -> list[FollowedVersionRow]:
    """Return the newest versions that extractions follow, without `other_than`. Counts end at `max_counted`."""
    cursor = await cursor_of(
        conn,
        FollowedVersionRow,
        """select v.id as schema_revid, v.number, v.schema, e.extractions
           from public.schema_versions as v cross join lateral (
             select count(*) as extractions from (
               select from public.extractions where schema_revid = v.id limit %s) as counted) as e
           where v.schema_id = %s and v.id is distinct from %s and e.extractions > 0
           order by v.number desc limit %s""",
        (max_counted, schema_id, other_than, limit),
    )
    return await cursor.fetchall()


async def average_cost(conn: Connection, schema_id: UUID, last: int) -> Decimal | None:
    """Return what the last completed runs cost on average that extracted by this schema. None if not known."""
    cursor = await conn.execute(
        """select avg(private.cost_of_run(r.id)) as cost from (
             select r.id from public.schema_versions as v
             join public.extractions as e on e.schema_revid = v.id
             join public.runs as r on r.extraction_id = e.id
             where v.schema_id = %s and r.task = 'extract' and r.status = 'completed'
             order by r.created_at desc limit %s) as r""",
        (schema_id, last),
    )
    row = await cursor.fetchone()
    return row["cost"] if row else None


async def followers(
    conn: Connection,
    schema_id: UUID,
    *,
    other_than: UUID | None = None,
    among: Sequence[UUID] | None = None,
    limit: int,
    behind: Position | None = None,
) -> list[FollowerRow]:
    """Return the newest `limit` extractions that follow a version of a schema, after a position in that order. Those
    that follow the version `other_than` are left out. If `among` is given, only these are returned."""
    where: list[LiteralString] = ["schema_revid = v.id"]
    parameters: dict[str, Any] = {"schema": schema_id, "other": other_than, "limit": limit}
    if among is not None:
        where.append("id = any (%(among)s)")
        parameters |= {"among": list(among)}
    if behind is not None:
        where.append("(created_at, id) < (%(created_at)s, %(id)s)")
        parameters |= behind._asdict()
    # The newest of each version are found by an index, and there are few versions.
    cursor = await cursor_of(
        conn,
        FollowerRow,
        f"""select e.id, e.document_id, e.created_at
            from public.schema_versions as v
            cross join lateral (
              select id, document_id, created_at from public.extractions
              where {" and ".join(where)} order by created_at desc, id desc limit %(limit)s) as e
            where v.schema_id = %(schema)s and v.id is distinct from %(other)s
            order by e.created_at desc, e.id desc limit %(limit)s""",
        parameters,
    )
    return await cursor.fetchall()


async def is_worked_on(conn: Connection, extraction_id: UUID) -> bool:
    """Return whether a run of the organisation is queued, running or waiting for this extraction."""
    cursor = await conn.execute("select private.is_worked_on(%s) as worked_on", (extraction_id,))
    row = await cursor.fetchone()
    return bool(row and row["worked_on"])


async def follow(conn: Connection, extraction_id: UUID, revid: UUID) -> None:
    """Let an extraction follow a version of a schema; it is in progress again. Raise NotFound."""
    await conn.execute("select private.follow_schema(%s, %s)", (extraction_id, revid))
