"""Extractions that follow another version of a schema, in Postgres, and what lets them follow this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import Position, cursor_of


@dataclass(frozen=True, slots=True)
class FollowerRow:
    """An extraction that follows a version of a schema, with its document's name."""

    id: UUID
    document_id: UUID
    filename: str
    schema_revid: UUID
    created_at: datetime


async def followers(
    conn: Connection,
    schema_id: UUID,
    *,
    other_than: UUID | None = None,
    among: Sequence[UUID] | None = None,
    limit: int,
    behind: Position | None = None,
) -> list[FollowerRow]:
    """The newest `limit` extractions that follow a version of a schema, or those that come behind a position in that
    order: without those that follow the version `other_than`, and of those `among` alone, if they are named."""
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
        f"""select e.id, e.document_id, d.filename, e.schema_revid, e.created_at
            from public.schema_versions as v
            cross join lateral (
              select id, document_id, schema_revid, created_at from public.extractions
              where {" and ".join(where)} order by created_at desc, id desc limit %(limit)s) as e
            join public.documents as d on d.id = e.document_id
            where v.schema_id = %(schema)s and v.id is distinct from %(other)s
            order by e.created_at desc, e.id desc limit %(limit)s""",
        parameters,
    )
    return await cursor.fetchall()


async def count_followers(conn: Connection, schema_id: UUID, other_than: UUID | None, most: int) -> int:
    """How many extractions follow a version of a schema other than this one; no more than `most` are counted."""
    cursor = await conn.execute(
        """select count(*) as found from (
             select from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
             where v.schema_id = %s and v.id is distinct from %s limit %s) as e""",
        (schema_id, other_than, most),
    )
    row = await cursor.fetchone()
    return row["found"] if row else 0


async def revid_of(conn: Connection, extraction_id: UUID) -> UUID | None:
    """The version of a schema that an extraction follows."""
    cursor = await conn.execute("select schema_revid from public.extractions where id = %s", (extraction_id,))
    row = await cursor.fetchone()
    return row["schema_revid"] if row else None


async def is_worked_on(conn: Connection, extraction_id: UUID) -> bool:
    """Whether a run works on an extraction, or is about to, or waits there: anybody's in its organisation."""
    cursor = await conn.execute("select private.is_worked_on(%s) as worked_on", (extraction_id,))
    row = await cursor.fetchone()
    return bool(row and row["worked_on"])


async def follow(conn: Connection, extraction_id: UUID, revid: UUID) -> None:
    """Let an extraction follow a version of a schema; it is in progress again. Raises NotFound."""
    await conn.execute("select private.follow_schema(%s, %s)", (extraction_id, revid))
