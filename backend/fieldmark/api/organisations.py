"""/api/me, /api/organisations, /api/invitations: who the caller is, who works with them, and who is to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.api.auth import TheCaller, TheOrganisation, ThePerson, TheRuntime
from fieldmark.api.problems import responses
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import Approvers, MembershipRole
from fieldmark.errors import ScopeMissing
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import organisations as service
from fieldmark.services.api_keys import Machine
from fieldmark.services.paging import Cursor, page_of
from fieldmark.stores import organisations
from fieldmark.stores.organisations import InvitationRow, MemberRow, OrganisationRow

router = APIRouter(tags=["organisations"])

Limit = Annotated[int, Query(ge=1, le=200, description="How many at the most.")]
Before = Annotated[str | None, Query(description="The `next` of the last answer: those that follow.")]
Name = Annotated[str, Field(min_length=1, max_length=200)]
_NEXT = "Give it as `before` to get those that follow. null at the end."


class Organisation(BaseModel):
    """An organisation that you belong to."""

    id: UUID
    name: str
    role: MembershipRole = Field(description="Yours.")
    is_personal: bool = Field(description="Where you act if no `X-Org-Id` is sent.")
    approvers: Approvers = Field(description="Who decides the calls that its runs wait for.")
    second_person: bool = Field(
        description="Whether somebody else than who started a run decides its calls. All its runs then ask."
    )
    examples: bool = Field(
        description="Whether the agent is shown a few corrections that people made in documents of the same schema."
    )
    auto_create: bool = Field(
        description="Whether an agent proposes a schema, a prompt and an extraction for each document that is read, "
        "where its upload does not say otherwise."
    )
    created_at: datetime


class OrganisationList(BaseModel):
    """Your organisations, newest first."""

    items: list[Organisation]
    next: str | None = Field(description=_NEXT)


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
    organisations: list[Organisation] = Field(description="The newest 200. A key has one.")


class NewOrganisation(BaseModel):
    """An organisation to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name


class OrganisationChange(BaseModel):
    """What to change; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    approvers: Approvers | None = None
    second_person: bool | None = None
    examples: bool | None = None
    auto_create: bool | None = None


class Member(BaseModel):
    """Somebody who belongs to an organisation."""

    user_id: UUID
    role: MembershipRole
    email: str | None = Field(description="null where the service knows none.")
    created_at: datetime = Field(description="Since when.")


class MemberList(BaseModel):
    """The members of an organisation, those who joined last first."""

    items: list[Member]
    next: str | None = Field(description=_NEXT)


class MemberChange(BaseModel):
    """What a member shall be."""

    model_config = ConfigDict(extra="forbid")

    role: MembershipRole


class NewInvitation(BaseModel):
    """Whom to invite, as what, and for how long."""

    model_config = ConfigDict(extra="forbid")

    role: MembershipRole = MembershipRole.MEMBER
    email: Annotated[str, Field(min_length=3, max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")] | None = Field(
        None, description="Only a user whose token names this address can accept it. Left out: whoever has it."
    )
    days: Annotated[int, Field(ge=1, le=90)] = Field(7, description="How long it holds.")


class Invitation(BaseModel):
    """An invitation into an organisation."""

    id: UUID
    email: str | None
    role: MembershipRole
    created_by: UUID | None
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    accepted_by: UUID | None
    revoked_at: datetime | None


class InvitationMade(Invitation):
    """An invitation with its token, which nothing shows again: the link that you send has it."""

    token: str = Field(examples=["fmi_…"])


class InvitationList(BaseModel):
    """The invitations of an organisation, newest first."""

    items: list[Invitation]
    next: str | None = Field(description=_NEXT)


class Accept(BaseModel):
    """The invitation to accept."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/api/me", responses=responses(401))
async def get_me(caller: TheCaller, runtime: TheRuntime) -> Me:
    """Who the token or key names, and where they belong."""
    if isinstance(caller, Machine):
        key = KeyOfCaller(
            id=caller.id, name=caller.name, prefix=caller.prefix, scopes=sorted(map(Permission, caller.scopes))
        )
        return Me(user_id=caller.id, email=None, key=key, organisations=[await _of_machine(runtime, caller)])
    await service.entered(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        rows = await organisations.of_user(conn, caller.user_id, limit=200, after=None)
    return Me(user_id=caller.user_id, email=caller.email, key=None, organisations=list(map(_organisation, rows)))


@router.get("/api/organisations", responses=responses(401, 403, 422))
async def list_organisations(
    caller: TheCaller, runtime: TheRuntime, limit: Limit = 50, before: Before = None
) -> OrganisationList:
    """The organisations that you belong to."""
    after = None if before is None else Cursor.parse(before, "organisations").position
    if isinstance(caller, Machine):
        if Permission.MEMBERS_READ not in caller.scopes:
            raise ScopeMissing(f"The key lacks the scope {Permission.MEMBERS_READ}: make one that has it.")
        return OrganisationList(items=[await _of_machine(runtime, caller)], next=None)
    await service.entered(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        rows = await organisations.of_user(conn, caller.user_id, limit=limit + 1, after=after)
    page = page_of(rows, limit, "organisations")
    return OrganisationList(items=list(map(_organisation, page.items)), next=page.next)


@router.post("/api/organisations", status_code=201, responses=responses(401, 403, 409, 422))
async def create_organisation(body: NewOrganisation, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Make an organisation, of which you are the owner."""
    async with runtime.database.as_user_without_org(person.user_id) as conn:
        made = await organisations.add(conn, body.name)
        return _organisation(await service.get(conn, made))


@router.get("/api/organisations/{organisation_id}", responses=responses(401, 403, 404, 422))
async def get_organisation(scope: TheOrganisation, runtime: TheRuntime) -> Organisation:
    """One of your organisations, with its settings."""
    async with runtime.database.as_user(scope) as conn:
        return _organisation(await service.get(conn, scope.org_id))


@router.patch("/api/organisations/{organisation_id}", responses=responses(401, 403, 404, 422))
async def update_organisation(body: OrganisationChange, scope: TheOrganisation, runtime: TheRuntime) -> Organisation:
    """Rename it, or say who decides what its runs wait for. An owner may."""
    async with runtime.database.as_user(scope) as conn:
        return _organisation(await service.update(conn, scope.org_id, body.model_dump(exclude_none=True)))


@router.delete("/api/organisations/{organisation_id}", status_code=204, responses=responses(401, 403, 404, 409, 422))
async def delete_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Give it up with all that is in it. It is out of everybody's sight at once. An owner may."""
    scope = await service.enter(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await service.delete(conn, organisation_id)


@router.post(
    "/api/organisations/{organisation_id}/leave", status_code=204, responses=responses(401, 403, 404, 409, 422)
)
async def leave_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Leave it. Your keys in it end. The last owner cannot, nor you your personal one."""
    scope = await service.enter(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await service.leave(conn, scope)


@router.get("/api/organisations/{organisation_id}/members", responses=responses(401, 403, 404, 422))
async def list_members(
    scope: TheOrganisation, runtime: TheRuntime, limit: Limit = 50, before: Before = None
) -> MemberList:
    """Who belongs to it."""
    after = None if before is None else Cursor.parse(before, "members").position
    async with runtime.database.as_user(scope) as conn:
        page = page_of(await organisations.members(conn, scope.org_id, limit=limit + 1, after=after), limit, "members")
    return MemberList(items=list(map(_member, page.items)), next=page.next)


@router.patch("/api/organisations/{organisation_id}/members/{user_id}", responses=responses(401, 403, 404, 409, 422))
async def update_member(user_id: UUID, body: MemberChange, scope: TheOrganisation, runtime: TheRuntime) -> Member:
    """Make a member an owner, a member or a viewer. An owner may; an organisation keeps an owner."""
    async with runtime.database.as_user(scope) as conn:
        return _member(await service.set_role(conn, scope.org_id, user_id, body.role))


@router.delete(
    "/api/organisations/{organisation_id}/members/{user_id}",
    status_code=204,
    responses=responses(401, 403, 404, 409, 422),
)
async def remove_member(user_id: UUID, scope: TheOrganisation, runtime: TheRuntime) -> None:
    """Remove a member. Their keys in it end. An owner may; an organisation keeps an owner."""
    async with runtime.database.as_user(scope) as conn:
        await organisations.remove(conn, scope.org_id, user_id)


@router.get("/api/organisations/{organisation_id}/invitations", responses=responses(401, 403, 404, 422))
async def list_invitations(
    scope: TheOrganisation, runtime: TheRuntime, limit: Limit = 50, before: Before = None
) -> InvitationList:
    """Who is invited, and who was. An owner may."""
    after = None if before is None else Cursor.parse(before, "invitations").position
    async with runtime.database.as_user(scope) as conn:
        rows = await organisations.invitations(conn, scope.org_id, limit=limit + 1, after=after)
    page = page_of(rows, limit, "invitations")
    return InvitationList(items=list(map(_invitation, page.items)), next=page.next)


@router.post(
    "/api/organisations/{organisation_id}/invitations",
    status_code=201,
    responses=responses(401, 403, 404, 409, 422),
)
async def create_invitation(body: NewInvitation, scope: TheOrganisation, runtime: TheRuntime) -> InvitationMade:
    """Invite somebody by a link of yours that holds the token. An owner may. Nobody is a member before they accept."""
    async with runtime.database.as_user(scope) as conn:
        made = await organisations.invite(conn, scope.org_id, role=body.role, email=body.email, days=body.days)
        row = await service.invitation(conn, made.id)
    return InvitationMade(token=made.token, **_invitation(row).model_dump())


@router.delete(
    "/api/organisations/{organisation_id}/invitations/{invitation_id}",
    status_code=204,
    responses=responses(401, 403, 404, 409, 422),
)
async def revoke_invitation(invitation_id: UUID, scope: TheOrganisation, runtime: TheRuntime) -> None:
    """Take an invitation back. An owner may."""
    async with runtime.database.as_user(scope) as conn:
        await organisations.revoke_invitation(conn, invitation_id)


@router.post("/api/invitations/accept", responses=responses(401, 403, 404, 409, 410, 422))
async def accept_invitation(body: Accept, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Accept an invitation, once, and become a member."""
    async with runtime.database.as_user_without_org(person.user_id, person.email) as conn:
        joined = await organisations.accept_invitation(conn, body.token)
        return _organisation(await service.get(conn, joined))


async def _of_machine(runtime: Runtime, machine: Machine) -> Organisation:
    async with runtime.database.as_user(Scope(machine.id, machine.org_id)) as conn:
        return _organisation(await service.get(conn, machine.org_id))


def _organisation(row: OrganisationRow) -> Organisation:
    return Organisation.model_validate(row, from_attributes=True)


def _member(row: MemberRow) -> Member:
    return Member(user_id=row.id, role=row.role, email=row.email, created_at=row.created_at)


def _invitation(row: InvitationRow) -> Invitation:
    return Invitation.model_validate(row, from_attributes=True)
