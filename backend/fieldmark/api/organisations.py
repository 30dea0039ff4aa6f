"""/api/me, /api/organisations, /api/invitations: who the caller is, who works with them, and who is to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from fieldmark.api.auth import OrganisationConn, TheCaller, TheOrganisation, ThePerson, TheRuntime
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import Before, Body, Limit, ListPage
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import Approvers, MembershipRole
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import organisations as service
from fieldmark.services.api_keys import Machine, require_scope
from fieldmark.stores import organisations
from fieldmark.stores.organisations import Invitation, Member, Organisation, SettingChange

router = Routes(tags=["organisations"])

Name = Annotated[str, Field(min_length=1, max_length=200)]


class KeyOfCaller(BaseModel):
    """The key that the request bears."""

    id: UUID
    name: str
    prefix: str
    scopes: list[Permission]


class Me(BaseModel):
    """Who the caller is: a person, or a key."""

    user_id: UUID = Field(description="Under which rows are written: the person's id, or the key's.")
    email: str | None = Field(description="As the token names it.")
    key: KeyOfCaller | None
    org_id: UUID = Field(description="The organisation of a request without X-Org-Id: the personal one, or the key's.")
    organisations: list[Organisation] = Field(description="The newest 200. A key has one.")


class NewOrganisation(Body):
    """An organisation to make."""

    name: Name


class OrganisationChange(Body):
    """What to change; what is left out stays."""

    name: Name | None = None
    approvers: Approvers | None = None
    second_person: bool | None = None
    examples: bool | None = None
    auto_create: bool | None = None


class MemberChange(Body):
    """What a member shall be."""

    role: MembershipRole


class NewInvitation(Body):
    """Whom to invite, as what, and for how long."""

    role: MembershipRole = MembershipRole.MEMBER
    email: Annotated[str, Field(min_length=3, max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")] | None = Field(
        None, description="Only a user whose token names this address can accept it. Left out: whoever has it."
    )
    days: Annotated[int, Field(ge=1, le=90)] = Field(7, description="How long it holds.")


@dataclass(frozen=True, slots=True)
class InvitationMade(Invitation):
    """An invitation with its token, which nothing shows again: the link that you send has it."""

    token: Annotated[str, Field(examples=["fmi_…"])]


class Accept(Body):
    """The invitation to accept."""

    token: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/api/me")
async def get_me(caller: TheCaller, runtime: TheRuntime) -> Me:
    """Who the token or key names, and where they belong."""
    if isinstance(caller, Machine):
        key = KeyOfCaller(
            id=caller.id, name=caller.name, prefix=caller.prefix, scopes=sorted(map(Permission, caller.scopes))
        )
        own = await _of_machine(runtime, caller)
        return Me(user_id=caller.id, email=None, key=key, org_id=own.id, organisations=[own])
    personal = await service.entered(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        page = await organisations.of_user(conn, caller.user_id, limit=200)
    return Me(
        user_id=caller.user_id,
        email=caller.email,
        key=None,
        org_id=personal.org_id,
        organisations=list(page.items),
    )


@router.get("/api/organisations")
async def list_organisations(
    caller: TheCaller, runtime: TheRuntime, limit: Limit = 50, before: Before = None
) -> ListPage[Organisation]:
    """The organisations that you belong to."""
    if isinstance(caller, Machine):
        require_scope(caller, Permission.MEMBERS_READ, "members of organisations are told with")
        return ListPage[Organisation](items=[await _of_machine(runtime, caller)], next=None)
    await service.entered(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        page = await organisations.of_user(conn, caller.user_id, limit=limit, before=before)
    return ListPage[Organisation].of(page)


@router.post("/api/organisations", status_code=201)
async def create_organisation(body: NewOrganisation, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Make an organisation, of which you are the owner."""
    async with runtime.database.as_user_without_org(person.user_id) as conn:
        made = await organisations.add(conn, body.name)
        return await organisations.get(conn, made)


@router.get("/api/organisations/{organisation_id}")
async def get_organisation(scope: TheOrganisation, conn: OrganisationConn) -> Organisation:
    """One of your organisations, with its settings."""
    return await organisations.get(conn, scope.org_id)


@router.patch("/api/organisations/{organisation_id}")
async def update_organisation(body: OrganisationChange, scope: TheOrganisation, conn: OrganisationConn) -> Organisation:
    """Rename it, or say who decides what its runs wait for. An owner may."""
    return await organisations.update(conn, scope.org_id, body.model_dump(exclude_none=True))


@router.get("/api/organisations/{organisation_id}/settings_journal")
async def list_setting_changes(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[SettingChange]:
    """Who changed its name or a setting, when, from what to what. An owner may."""
    return ListPage[SettingChange].of(
        await organisations.setting_changes(conn, scope.org_id, limit=limit, before=before)
    )


@router.delete("/api/organisations/{organisation_id}", status_code=204)
async def delete_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Give it up with all that is in it. It is out of everybody's sight at once. An owner may."""
    scope = await service.enter(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await organisations.delete(conn, organisation_id)


@router.post("/api/organisations/{organisation_id}/leave", status_code=204)
async def leave_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Leave it. Your keys in it end. The last owner cannot, nor you your personal one."""
    scope = await service.enter(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await organisations.leave(conn, scope)


@router.get("/api/organisations/{organisation_id}/members")
async def list_members(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[Member]:
    """Who belongs to it."""
    return ListPage[Member].of(await organisations.members(conn, scope.org_id, limit=limit, before=before))


@router.patch("/api/organisations/{organisation_id}/members/{user_id}")
async def update_member(user_id: UUID, body: MemberChange, scope: TheOrganisation, conn: OrganisationConn) -> Member:
    """Make a member an owner, a member or a viewer. An owner may; an organisation keeps an owner."""
    return await organisations.set_role(conn, scope.org_id, user_id, body.role)


@router.delete(
    "/api/organisations/{organisation_id}/members/{user_id}",
    status_code=204,
)
async def remove_member(user_id: UUID, scope: TheOrganisation, conn: OrganisationConn) -> None:
    """Remove a member. Their keys in it end. An owner may; an organisation keeps an owner."""
    await organisations.remove(conn, scope.org_id, user_id)


@router.get("/api/organisations/{organisation_id}/invitations")
async def list_invitations(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[Invitation]:
    """Who is invited, and who was. An owner may."""
    return ListPage[Invitation].of(await organisations.invitations(conn, scope.org_id, limit=limit, before=before))


@router.post(
    "/api/organisations/{organisation_id}/invitations",
    status_code=201,
)
async def create_invitation(body: NewInvitation, scope: TheOrganisation, conn: OrganisationConn) -> InvitationMade:
    """Invite somebody by a link of yours that holds the token. An owner may. Nobody is a member before they accept."""
    made = await organisations.invite(conn, scope.org_id, role=body.role, email=body.email, days=body.days)
    row = await organisations.invitation(conn, made.id)
    return InvitationMade(**asdict(row), token=made.token)


@router.delete(
    "/api/organisations/{organisation_id}/invitations/{invitation_id}",
    status_code=204,
)
async def revoke_invitation(invitation_id: UUID, conn: OrganisationConn) -> None:
    """Take an invitation back. An owner may."""
    await organisations.revoke_invitation(conn, invitation_id)


@router.post("/api/invitations/accept")
async def accept_invitation(body: Accept, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Accept an invitation, once, and become a member."""
    async with runtime.database.as_user_without_org(person.user_id, person.email) as conn:
        joined = await organisations.accept_invitation(conn, body.token)
        return await organisations.get(conn, joined)


async def _of_machine(runtime: Runtime, machine: Machine) -> Organisation:
    async with runtime.database.as_user(Scope(machine.id, machine.org_id)) as conn:
        return await organisations.get(conn, machine.org_id)
