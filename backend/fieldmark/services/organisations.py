"""Which organisation a caller acts in, and as what."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import organisations
from fieldmark.stores.organisations import Entered


async def enter(database: Database, user_id: UUID, org_id: UUID | None = None) -> Scope:
    """The scope of a user in one of their organisations; in their personal one, made on first sight, if none is named.
    Raises NotFound where the organisation is not theirs."""
    return Scope(user_id, (await entered(database, user_id, org_id)).org_id)


async def entered(database: Database, user_id: UUID, org_id: UUID | None = None) -> Entered:
    """The same, with what the user is there."""
    async with database.as_user_without_org(user_id) as conn:
        found = await organisations.enter(conn, org_id)
    if found is None:
        raise NotFound("There is no such organisation.")
    return found
