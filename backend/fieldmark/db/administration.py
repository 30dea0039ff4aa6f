"""Reads what the person who runs the service may see: organisations, limits, queue and spending, and no document."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection

from fieldmark.db.pool import CONNECTION_OPTIONS, libpq_url
from fieldmark.errors import Misconfigured, Unavailable


async def administration(owner_url: str, limit: int) -> dict[str, Any]:
    """Return the report of `private.administration`, with only the rights of its role. `owner_url` logs in as the owner
    or as a login that was granted `fieldmark_admin`. Raise Misconfigured, Unavailable."""
    try:
        async with await AsyncConnection.connect(libpq_url(owner_url)[0], **CONNECTION_OPTIONS) as connection:
            await connection.execute("set local role fieldmark_admin")
            cursor = await connection.execute("select private.administration(%s)", (limit,))
            row = await cursor.fetchone()
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database does not answer: {str(error).strip()}") from error
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject, psycopg.ProgrammingError) as error:
        raise Misconfigured(
            f"This login may not administer the service: {error.diag.message_primary}. Set DATABASE_OWNER_URL to the "
            "owner's login, or to one that was granted the role fieldmark_admin, and run `fieldmark migrate`."
        ) from error
    assert row is not None
    return row[0]
