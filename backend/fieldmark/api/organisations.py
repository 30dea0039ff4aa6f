"""/api/me, /api/organisations, /api/invitations: the caller, organisations, members and invitations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, model_validator

from fieldmark.agents.registry import check_tools_to_approve
from fieldmark.api.auth import OrganisationConn, TheCaller, TheOrganisation, ThePerson, TheRuntime
from fieldmark.api.downloads import attachment_headers
from fieldmark.api.named_items import SchemaName
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Before, Limit, MaxError, RequestBody, ResponseModel
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import Approvers, MembershipRole, SecondReadingMode
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import organisations as service
from fieldmark.services.api_keys import KeyCaller, require_scope
from fieldmark.services.exports.archive import organisation_archive, person_archive
from fieldmark.services.upload_targets import get_stack
from fieldmark.stores import organisations, upload_rules
from fieldmark.stores.library import schemas
from fieldmark.stores.organisations import (
    DeletedAccount,
    DeletedOrganisation,
    Invitation,
    Member,
    OfferedInvitation,
    Organisation,
    SettingChange,
)
from fieldmark.stores.paging import ListPage
from fieldmark.stores.upload_rules import UploadRule

router = Routes(tags=["organisations"])

_ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A ZIP file",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}

Name = Annotated[str, Field(min_length=1, max_length=200)]


class CallerKey(BaseModel):
    """The API key that sent the request."""

    id: UUID
    name: str
    prefix: str
    scopes: list[Permission]


class Me(BaseModel):
    """The caller: a person or an API key."""

    user_id: UUID = Field(description="Recorded as the author of rows: the id of the person or key.")
    email: str | None = Field(description="From the token.")
    key: CallerKey | None
    org_id: UUID = Field(description="The organisation of a request without X-Org-Id: the personal one, or the key's.")
    organisations: list[Organisation] = Field(description="The newest 200. A key has one.")


class NewOrganisation(RequestBody):
    """An organisation to create."""

    name: Name


class OrganisationChange(RequestBody):
    """Changes of an organisation. Fields that are left out stay unchanged."""

    name: Name | None = None
    approvers: Approvers | None = None
    second_person: bool | None = None
    auto_approved_tools: list[str] | None = Field(
        None, description="Tools that need no approval in new runs. A key needs `runs:approve` to set them."
    )
    examples: bool | None = None
    auto_create: bool | None = None
    max_error: MaxError | None = None
    second_reading: SecondReadingMode | None = None


RuleText = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]


class _RuleConditions(BaseModel):
    document_type: RuleText | None = Field(
        None,
        description="As the document calls itself: invoice, credit_note, receipt, contract, form, letter, or document.",
    )
    filename: RuleText | None = Field(None, description="`*` stands for any characters.", examples=["*.pdf"])
    sender: RuleText | None = Field(
        None,
        description="A part of the sender of the mail that it is or is in. Anyone can write any sender into a mail.",
        examples=["@example.com"],
    )


class Rule(_RuleConditions, ResponseModel):
    """A rule for uploaded documents: conditions, of which all that are set must hold, and what the document becomes."""

    schema_id: UUID | None = Field(None, description="It is extracted with the latest version of this schema.")
    stack_id: UUID | None = Field(None, description="It becomes a row of this stack's table.")


class NewRule(_RuleConditions, RequestBody):
    """A rule to set: at least one condition, and what the document becomes."""

    schema_id: SchemaName | None = Field(
        None, description="Extract it with the latest version of this schema: its name, its id, or that of a version."
    )
    stack_id: RuleText | None = Field(None, description="Make it a row of this stack's table: its name or its id.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.document_type is None and self.filename is None and self.sender is None:
            raise ValueError("A rule needs a document_type, a filename or a sender.")
        if (self.schema_id is None) == (self.stack_id is None):
            raise ValueError("A rule needs either a schema_id or a stack_id.")
        return self


class UploadRules(BaseModel):
    """Rules for uploaded documents, in their order."""

    items: list[Rule]


class NewUploadRules(RequestBody):
    """Rules to set, in their order."""

    items: Annotated[list[NewRule], Field(max_length=50)]


class MemberChange(RequestBody):
    """A member's new role."""

    role: MembershipRole


class NewInvitation(RequestBody):
    """An invitation to create."""

    role: MembershipRole = MembershipRole.MEMBER
    email: Annotated[str, Field(min_length=3, max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")] | None = Field(
        None, description="Only a user with this verified address can accept. Default: any user who has the link."
    )
    days: Annotated[int, Field(ge=1, le=90)] = Field(7, description="Days until it expires.")


@dataclass(frozen=True, slots=True)
class CreatedInvitation(Invitation):
    """A new invitation with its token, which is returned only once. Put it into the link that you send."""

    token: Annotated[str, Field(examples=["fmi_…"])]


class AcceptInvitation(RequestBody):
    """The token of an invitation."""

    token: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/api/me")
async def get_me(caller: TheCaller, runtime: TheRuntime) -> Me:
    """Return the person or API key that sends the request, and its organisations."""
    if isinstance(caller, KeyCaller):
        key = CallerKey(
            id=caller.id, name=caller.name, prefix=caller.prefix, scopes=sorted(map(Permission, caller.scopes))
        )
        own = await _organisation_of_key(runtime, caller)
        return Me(user_id=caller.id, email=None, key=key, org_id=own.id, organisations=[own])
    personal = await service.organisation_of_user(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        page = await organisations.list_of_user(conn, caller.user_id, limit=200)
    return Me(
        user_id=caller.user_id,
        email=caller.email,
        key=None,
        org_id=personal.org_id,
        organisations=list(page.items),
    )


@router.get("/api/me/export", response_class=StreamingResponse, responses=_ZIP)
async def export_account(person: ThePerson, runtime: TheRuntime) -> StreamingResponse:
    """Export all rows that name you or a key of yours, in all your organisations: a ZIP file with a folder for each
    organisation, and in it JSON lines for each table. What an agent or another member wrote about you in a text is not
    found."""
    await service.scope_of_user(runtime.database, person.user_id)
    scopes: list[Scope] = []
    before: str | None = None
    async with runtime.database.as_user_without_org(person.user_id) as conn:
        while not scopes or before is not None:
            page = await organisations.list_of_user(conn, person.user_id, limit=200, before=before)
            scopes += [Scope(person.user_id, one.id) for one in page.items]
            before = page.next
    return _zip_response(person_archive(runtime.database, scopes), "fieldmark-account.zip")


@router.delete("/api/me")
async def delete_account(person: ThePerson, runtime: TheRuntime) -> DeletedAccount:
    """Delete your account: your memberships, organisations without other members, keys, sources, threads that you did
    not share, and your address. What you wrote for other members stays, under an id that names no one. Refused with
    `last_owner` while an organisation with other members has no other owner."""
    async with runtime.database.as_user_without_org(person.user_id, person.email) as conn:
        return await organisations.delete_account(conn)


@router.get("/api/organisations")
async def list_organisations(
    caller: TheCaller, runtime: TheRuntime, limit: Limit = 50, before: Before = None
) -> ListPage[Organisation]:
    """List the organisations that you belong to."""
    if isinstance(caller, KeyCaller):
        require_scope(caller, Permission.MEMBERS_READ, "this list")
        return ListPage(items=[await _organisation_of_key(runtime, caller)], next=None)
    await service.scope_of_user(runtime.database, caller.user_id)
    async with runtime.database.as_user_without_org(caller.user_id) as conn:
        return await organisations.list_of_user(conn, caller.user_id, limit=limit, before=before)


@router.post("/api/organisations", status_code=201)
async def create_organisation(body: NewOrganisation, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Create an organisation. You become its owner."""
    async with runtime.database.as_user_without_org(person.user_id) as conn:
        org_id = await organisations.add(conn, body.name)
        return await organisations.get(conn, org_id)


@router.get("/api/organisations/{organisation_id}")
async def get_organisation(scope: TheOrganisation, conn: OrganisationConn) -> Organisation:
    """Return one of your organisations with its settings."""
    return await organisations.get(conn, scope.org_id)


@router.patch("/api/organisations/{organisation_id}")
async def update_organisation(
    body: OrganisationChange, caller: TheCaller, scope: TheOrganisation, conn: OrganisationConn
) -> Organisation:
    """Rename an organisation or change its settings. Owners only."""
    if body.auto_approved_tools is not None:
        require_scope(caller, Permission.RUNS_APPROVE, "`auto_approved_tools`")
        check_tools_to_approve(body.auto_approved_tools)
    return await organisations.update(conn, scope.org_id, body.model_dump(exclude_none=True))


@router.get("/api/organisations/{organisation_id}/upload_rules")
async def list_upload_rules(scope: TheOrganisation, conn: OrganisationConn) -> UploadRules:
    """List the rules for uploaded documents, in their order."""
    return UploadRules(items=[Rule.of(asdict(one)) for one in await upload_rules.of_organisation(conn, scope.org_id)])


@router.put("/api/organisations/{organisation_id}/upload_rules")
async def set_upload_rules(body: NewUploadRules, scope: TheOrganisation, conn: OrganisationConn) -> UploadRules:
    """Replace the rules for uploaded documents. The first that matches applies once a document is read, unless its
    uploader said what it becomes. For the others, an agent suggests a schema if the organisation has set that. Owners
    only."""
    rules: list[UploadRule] = []
    for one in body.items:
        schema_id = None if one.schema_id is None else await schemas.id_of(conn, scope.org_id, one.schema_id)
        stack_id = None if one.stack_id is None else (await get_stack(conn, scope, one.stack_id)).id
        rules.append(UploadRule(one.document_type, one.filename, one.sender, schema_id, stack_id))
    await upload_rules.replace(conn, scope.org_id, rules)
    return await list_upload_rules(scope, conn)


@router.get("/api/organisations/{organisation_id}/settings_journal")
async def list_setting_changes(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[SettingChange]:
    """List the changes of an organisation's name and settings, newest first. Owners only."""
    return await organisations.setting_changes(conn, scope.org_id, limit=limit, before=before)


@router.delete("/api/organisations/{organisation_id}", status_code=204)
async def delete_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Delete an organisation with everything in it. It disappears for all members at once. Owners only."""
    scope = await service.scope_of_user(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await organisations.delete(conn, organisation_id)


@router.get("/api/organisations/{organisation_id}/deletion")
async def get_deletion(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> DeletedOrganisation:
    """Return what was deleted of an organisation that you deleted: counts of rows by table and of files, and whether
    any is left."""
    async with runtime.database.as_user_without_org(person.user_id) as conn:
        return await organisations.deleted(conn, organisation_id)


@router.get("/api/organisations/{organisation_id}/export", response_class=StreamingResponse, responses=_ZIP)
async def export_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> StreamingResponse:
    """Export an organisation: a ZIP file with all rows that you may read, as JSON lines for each table, and all
    original files. Owners only. It has no secrets, no search index, and no threads that other members did not share."""
    scope = await service.scope_of_user(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await organisations.check_owner(conn, organisation_id)
    return _zip_response(organisation_archive(runtime.database, runtime.files, scope), f"fieldmark-{scope.org_id}.zip")


@router.post("/api/organisations/{organisation_id}/leave", status_code=204)
async def leave_organisation(organisation_id: UUID, person: ThePerson, runtime: TheRuntime) -> None:
    """Leave an organisation. Your keys in it are revoked. The last owner cannot leave, and no one can leave their
    personal organisation."""
    scope = await service.scope_of_user(runtime.database, person.user_id, organisation_id)
    async with runtime.database.as_user(scope) as conn:
        await organisations.leave(conn, scope)


@router.get("/api/organisations/{organisation_id}/members")
async def list_members(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[Member]:
    """List the members of an organisation."""
    return await organisations.members(conn, scope.org_id, limit=limit, before=before)


@router.patch("/api/organisations/{organisation_id}/members/{user_id}")
async def update_member(user_id: UUID, body: MemberChange, scope: TheOrganisation, conn: OrganisationConn) -> Member:
    """Change a member's role. Owners only; the last owner stays an owner."""
    return await organisations.set_role(conn, scope.org_id, user_id, body.role)


@router.delete(
    "/api/organisations/{organisation_id}/members/{user_id}",
    status_code=204,
)
async def remove_member(user_id: UUID, scope: TheOrganisation, conn: OrganisationConn) -> None:
    """Remove a member and revoke their keys in the organisation. Owners only; the last owner stays."""
    await organisations.remove(conn, scope.org_id, user_id)


@router.get("/api/organisations/{organisation_id}/invitations")
async def list_invitations(
    scope: TheOrganisation, conn: OrganisationConn, limit: Limit = 50, before: Before = None
) -> ListPage[Invitation]:
    """List pending and past invitations. Owners only."""
    return await organisations.invitations(conn, scope.org_id, limit=limit, before=before)


@router.post(
    "/api/organisations/{organisation_id}/invitations",
    status_code=201,
)
async def create_invitation(body: NewInvitation, scope: TheOrganisation, conn: OrganisationConn) -> CreatedInvitation:
    """Create an invitation. Send its token in a link of your front end; who accepts it becomes a member. Owners
    only."""
    made = await organisations.invite(conn, scope.org_id, role=body.role, email=body.email, days=body.days)
    row = await organisations.invitation(conn, made.id)
    return CreatedInvitation(**asdict(row), token=made.token)


@router.delete(
    "/api/organisations/{organisation_id}/invitations/{invitation_id}",
    status_code=204,
)
async def revoke_invitation(invitation_id: UUID, conn: OrganisationConn) -> None:
    """Revoke an invitation. Owners only."""
    await organisations.revoke_invitation(conn, invitation_id)


@router.post("/api/invitations/read")
async def read_invitation(body: AcceptInvitation, person: ThePerson, runtime: TheRuntime) -> OfferedInvitation:
    """Return the organisation and the role that an invitation offers, to the person who may accept it."""
    async with runtime.database.as_user_without_org(person.user_id, person.email) as conn:
        return await organisations.read_invitation(conn, body.token)


@router.post("/api/invitations/accept")
async def accept_invitation(body: AcceptInvitation, person: ThePerson, runtime: TheRuntime) -> Organisation:
    """Accept an invitation and become a member. An invitation can be accepted once."""
    async with runtime.database.as_user_without_org(person.user_id, person.email) as conn:
        org_id = await organisations.accept_invitation(conn, body.token)
        return await organisations.get(conn, org_id)


def _zip_response(parts: AsyncIterator[bytes], filename: str) -> StreamingResponse:
    headers = attachment_headers(filename) | {"Cache-Control": "private, no-store"}
    return StreamingResponse(parts, media_type="application/zip", headers=headers)


async def _organisation_of_key(runtime: Runtime, key: KeyCaller) -> Organisation:
    async with runtime.database.as_user(Scope(key.id, key.org_id)) as conn:
        return await organisations.get(conn, key.org_id)
