"""Opens an organisation for a user."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import organisations
from fieldmark.stores.organisations import CurrentOrganisation


async def scope_of_user(database: Database, user_id: UUID, org_id: UUID | None = None) -> Scope:
    """Return the scope of a user in one of their organisations. Default: their personal one, created on first use.
    Raise NotFound if the organisation is not theirs."""
    return Scope(user_id, (await organisation_of_user(database, user_id, org_id)).org_id)


async def organisation_of_user(database: Database, user_id: UUID, org_id: UUID | None = None) -> CurrentOrganisation:
    """Like `private.resolve_organisation`, but return the organisation with the user's role in it."""
    async with database.as_user_without_org(user_id) as conn:
        found = await organisations.resolve(conn, org_id)
    if found is None:
        raise NotFound("There is no such organisation.")
    return found
