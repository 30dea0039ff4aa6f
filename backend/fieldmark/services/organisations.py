"""Organisations: which one a user acts in."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import organisations


async def enter(database: Database, user_id: UUID, org_id: UUID | None = None) -> Scope:
    """The scope of a user in one of their organisations; in their personal one, made on first sight, if none is named.
    Raises NotFound where the organisation is not theirs."""
    async with database.as_user_without_org(user_id) as conn:
        entered = await organisations.enter(conn, org_id)
    if entered is None:
        raise NotFound("There is no such organisation.")
    return Scope(user_id, entered)
