"""The database's clock, by which everything is stored. A machine's own may be minutes off."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import value_of


async def now(conn: Connection) -> datetime:
    """Return the database's time, in UTC."""
    time: datetime = await value_of(conn, "select clock_timestamp()")
    return time.astimezone(UTC)


async def today(conn: Connection) -> date:
    """Return the day of the database's time."""
    return (await now(conn)).date()


async def lag(conn: Connection) -> timedelta:
    """Return by how much this machine's clock is behind the database's. Zero if it is ahead."""
    return max(await now(conn) - datetime.now(UTC), timedelta())
