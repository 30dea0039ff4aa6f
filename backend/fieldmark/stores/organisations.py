"""Organisations in Postgres: which one a caller acts in."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Connection


async def enter(conn: Connection, org_id: UUID | None) -> UUID | None:
    """The organisation to act in: the one asked for if the caller belongs to it, else None; without one asked for the
    caller's personal organisation, made on first sight."""
    cursor = await conn.execute("select private.enter(%s) as org_id", (org_id,))
    row = await cursor.fetchone()
    return row["org_id"] if row else None
