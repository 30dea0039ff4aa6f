"""Organisations: which one a caller acts in and as what, and how they and their members change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.statuses import MembershipRole
from fieldmark.errors import Conflict, NotFound, OwnerNeeded
from fieldmark.identity.scope import Scope
from fieldmark.stores import organisations
from fieldmark.stores.organisations import Entered, MemberRow, OrganisationRow


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


async def update(conn: Connection, org_id: UUID, changes: dict[str, Any]) -> OrganisationRow:
    """Change its name or settings. Raises OwnerNeeded, NotFound."""
    if changes and not await organisations.update(conn, org_id, changes):
        await organisations.get(conn, org_id)
        raise OwnerNeeded("Only an owner of the organisation can change it.")
    return await organisations.get(conn, org_id)


async def set_role(conn: Connection, org_id: UUID, user_id: UUID, role: MembershipRole) -> MemberRow:
    """Make a member an owner, a member or a viewer. Raises NotFound, LastOwner, and Conflict for whose personal
    organisation it is."""
    done = await organisations.set_role(conn, org_id, user_id, role)
    row = await organisations.member(conn, org_id, user_id)
    if row is None:
        raise NotFound("There is no such member.")
    if not done:
        raise Conflict("This is the member's personal organisation: they stay its owner.")
    return row


async def delete(conn: Connection, org_id: UUID) -> None:
    """Give an organisation up. Raises OwnerNeeded, NotFound."""
    if (await organisations.get(conn, org_id)).role is not MembershipRole.OWNER:
        raise OwnerNeeded("Only an owner of the organisation can delete it.")
    await organisations.delete(conn, org_id)


async def leave(conn: Connection, scope: Scope) -> None:
    """Leave an organisation. Raises NotFound, LastOwner, and Conflict for the personal one."""
    if (await organisations.get(conn, scope.org_id)).is_personal:
        raise Conflict("This is your personal organisation: nobody leaves that. You can delete it.")
    await organisations.remove(conn, scope.org_id, scope.user_id)
