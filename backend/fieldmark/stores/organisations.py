"""Organisations in Postgres, with their members, invitations and settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, LiteralString
from uuid import UUID

from psycopg import sql
from pydantic import Field, JsonValue, TypeAdapter

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import Approvers, MembershipRole, SecondReadingMode
from fieldmark.errors import Conflict, NotFound, OwnerNeeded
from fieldmark.identity.scope import Scope
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import fetch_all, fetch_one, value_of


@dataclass(frozen=True, slots=True)
class CurrentOrganisation:
    org_id: UUID
    role: MembershipRole


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation that the caller belongs to."""

    id: UUID
    name: str
    role: Annotated[MembershipRole, Field(description="Your role.")]
    is_personal: Annotated[bool, Field(description="Your personal organisation is the default without `X-Org-Id`.")]
    approvers: Annotated[Approvers, Field(description="Who may approve or reject the tool calls of its runs.")]
    second_person: Annotated[
        bool,
        Field(description="Whether a second user, not the one who started a run, must approve its calls."),
    ]
    auto_approved_tools: Annotated[
        list[str],
        Field(description="Tools that the runs of the organisation do not ask about, besides those that a run names."),
    ]
    examples: Annotated[
        bool,
        Field(description="Whether the agent sees some of the users' corrections in documents with the same schema."),
    ]
    auto_create: Annotated[
        bool,
        Field(
            description="Whether an agent suggests a schema, a prompt and an extraction for each new document. "
            "An upload can override this."
        ),
    ]
    max_error: Annotated[
        float,
        Field(
            description="The share of wrong values, among those that no one looks at, that its tables may have, unless "
            "a table has its own. It holds for documents that are read from then on. 1: any."
        ),
    ]
    second_reading: Annotated[
        SecondReadingMode,
        Field(
            description="What a second model reads again after each extraction, to compare: nothing, the doubted "
            "fields, or all. A schema (`x-fieldmark.second_reading`) or a run can override this."
        ),
    ]
    created_at: datetime

    @property
    def always_asks(self) -> bool:
        """Whether a person must approve each write of the caller's runs, as `private.fill_run` decides."""
        return self.second_person or (self.approvers is Approvers.OWNERS and self.role is not MembershipRole.OWNER)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an organisation."""

    user_id: UUID
    role: MembershipRole
    email: Annotated[str | None, Field(description="null if not known.")]
    created_at: Annotated[datetime, Field(description="When the user joined.")]

    @property
    def id(self) -> UUID:
        """Same as `user_id`: lists are sorted by `created_at` and `id`."""
        return self.user_id


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation to an organisation."""

    id: UUID
    email: str | None
    role: MembershipRole
    created_by: UUID | None
    created_at: datetime
    expires_at: datetime
    is_expired: Annotated[bool, Field(description="By the database's clock.")]
    accepted_at: datetime | None
    accepted_by: UUID | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One change of a setting of an organisation."""

    id: UUID
    setting: Annotated[str, Field(description="Name of the setting.", examples=["second_person"])]
    old: JsonValue
    new: JsonValue
    created_by: Annotated[UUID | None, Field(description="The user or key that changed it.")]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeletedOrganisation:
    """What was deleted of an organisation."""

    org_id: UUID
    asked_at: datetime
    finished_at: Annotated[datetime | None, Field(description="When the last row was deleted. null: not yet.")]
    rows_found: Annotated[
        dict[str, int] | None,
        Field(description="Rows by table when the deletion began. null: not counted yet.", examples=[{"runs": 3}]),
    ]
    rows_left: Annotated[
        dict[str, int] | None, Field(description="Rows by table when the deletion ended: {} if none is left.")
    ]
    files_deleted: int
    files_left: Annotated[int, Field(description="Original files that workers have not deleted yet.")]


@dataclass(frozen=True, slots=True)
class DeletedAccount:
    """What was deleted with an account."""

    organisations: Annotated[list[UUID], Field(description="Organisations without other members, deleted as well.")]
    memberships: int
    threads: Annotated[int, Field(description="Threads that you had not shared.")]
    sources: int
    invitations: Annotated[int, Field(description="Invitations to your address, from which it was removed.")]


_DELETED: Final = TypeAdapter(DeletedOrganisation)
_DELETED_ACCOUNT: Final = TypeAdapter(DeletedAccount)


@dataclass(frozen=True, slots=True)
class InvitationToken:
    """The id and the token of a new invitation. The token is stored only as a hash."""

    id: UUID
    token: str


_ORGANISATION: Final[
    LiteralString
] = """o.id, o.name, o.personal_of is not distinct from private.user_of(auth.uid()) as is_personal,
    o.approvers, o.second_person, o.auto_approved_tools, o.examples, o.auto_create, o.max_error::float8 as max_error,
    o.second_reading, o.created_at"""
_MEMBER: Final[LiteralString] = """
    m.user_id, m.role, private.address_of(m.org_id, m.user_id) as email, m.created_at
    from public.memberships as m"""
_INVITATION: Final[LiteralString] = (
    "id, email, role, created_by, created_at, expires_at, expires_at <= now() as is_expired, accepted_at, accepted_by, "
    "revoked_at"
)


async def resolve(conn: Connection, org_id: UUID | None) -> CurrentOrganisation | None:
    """Return the organisation `org_id` and the caller's role in it, or None if they do not belong to it. Default: the
    caller's personal organisation, which is created on first use."""
    query = """
        select e.org_id, case when %(org)s::uuid is null then 'owner' else private.role_of(e.org_id, auth.uid()) end
          as role
        from (select private.resolve_organisation(%(org)s) as org_id) as e where e.org_id is not null"""
    return await fetch_one(conn, CurrentOrganisation, query, {"org": org_id})


async def get(conn: Connection, org_id: UUID) -> Organisation:
    query: LiteralString = f"""
        select {_ORGANISATION}, private.role_of(o.id, auth.uid()) as role
        from public.organisations as o where o.id = %s"""
    row = await fetch_one(conn, Organisation, query, (org_id,))
    if row is None:
        raise NotFound("The organisation does not exist.")
    return row


async def list_of_user(
    conn: Connection, user_id: UUID, *, limit: int, before: str | None = None
) -> ListPage[Organisation]:
    """Return a page of a user's organisations, newest first. The query starts at the memberships, which have an index:
    with row policies alone it would read every organisation."""
    request = PageRequest("organisations", limit, before)
    query = f"""
        select {_ORGANISATION}, m.role
        from public.memberships as m join public.organisations as o on o.id = m.org_id
        where {" and ".join(["m.user_id = %(user)s", *request.conditions("o.created_at, o.id")])}
        order by o.created_at desc, o.id desc limit %(limit)s"""
    return request.page(await fetch_all(conn, Organisation, query, {"user": user_id, **request.parameters()}))


async def add(conn: Connection, name: str) -> UUID:
    """Create an organisation that the caller owns, and return its id. Raise TooMany."""
    return await _fetch_value(conn, "select public.create_organisation(%s) as result", (name,))


async def update(conn: Connection, org_id: UUID, changes: dict[str, Any]) -> Organisation:
    """Change the name or settings of an organisation. Raise OwnerNeeded, NotFound."""
    if changes:
        columns = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in changes.items()
        )
        statement = sql.SQL("update public.organisations set {} where id = {}").format(columns, org_id)
        if not (await conn.execute(statement)).rowcount:
            await get(conn, org_id)
            raise OwnerNeeded("Only an owner of the organisation can change it.")
    return await get(conn, org_id)


async def check_owner(conn: Connection, org_id: UUID) -> None:
    """Raise OwnerNeeded, or NotFound if the caller is not a member."""
    await conn.execute("select private.check_owner(%s)", (org_id,))


async def delete(conn: Connection, org_id: UUID) -> None:
    """Delete an organisation. Raise OwnerNeeded, NotFound."""
    if (await get(conn, org_id)).role is not MembershipRole.OWNER:
        raise OwnerNeeded("Only an owner of the organisation can delete it.")
    await conn.execute("select public.delete_organisation(%s)", (org_id,))


async def deleted(conn: Connection, org_id: UUID) -> DeletedOrganisation:
    """Return what was deleted of an organisation that the caller deleted. Raise NotFound."""
    found = await _fetch_value(conn, "select public.deleted_organisation(%s) as result", (org_id,))
    if found is None:
        raise NotFound("You have not deleted such an organisation.")
    return _DELETED.validate_python(found)


async def delete_account(conn: Connection) -> DeletedAccount:
    """Delete the caller's account. Raise LastOwner, TooMany."""
    return _DELETED_ACCOUNT.validate_python(await _fetch_value(conn, "select public.delete_account() as result", ()))


async def members(conn: Connection, org_id: UUID, *, limit: int, before: str | None = None) -> ListPage[Member]:
    request = PageRequest("members", limit, before)
    query = f"""
        select {_MEMBER}
        where {" and ".join(["m.org_id = %(org)s", *request.conditions("m.created_at, m.user_id")])}
        order by m.created_at desc, m.user_id desc limit %(limit)s"""
    return request.page(await fetch_all(conn, Member, query, {"org": org_id, **request.parameters()}))


async def member(conn: Connection, org_id: UUID, user_id: UUID) -> Member | None:
    query: LiteralString = f"select {_MEMBER} where m.org_id = %s and m.user_id = %s"
    return await fetch_one(conn, Member, query, (org_id, user_id))


async def set_role(conn: Connection, org_id: UUID, user_id: UUID, role: MembershipRole) -> Member:
    """Change the role of a member. Raise NotFound, LastOwner, Conflict if it is the member's personal organisation."""
    statement = "update public.memberships set role = %s where org_id = %s and user_id = %s"
    done = (await conn.execute(statement, (role, org_id, user_id))).rowcount > 0
    row = await member(conn, org_id, user_id)
    if row is None:
        raise NotFound("The member does not exist.")
    if not done:
        raise Conflict("This is the member's personal organisation, so their role stays owner.")
    return row


async def leave(conn: Connection, scope: Scope) -> None:
    """Remove the caller from an organisation. Raise NotFound, LastOwner, Conflict for the personal organisation."""
    if (await get(conn, scope.org_id)).is_personal:
        raise Conflict("You cannot leave your personal organisation. You can delete it instead.")
    await remove(conn, scope.org_id, scope.user_id)


async def remove(conn: Connection, org_id: UUID, user_id: UUID) -> None:
    """Remove a member. Raise NotFound, LastOwner."""
    await conn.execute("select public.remove_member(%s, %s)", (org_id, user_id))


async def invite(
    conn: Connection, org_id: UUID, *, role: MembershipRole, email: str | None, days: int
) -> InvitationToken:
    """Create an invitation that is valid for `days`. Raise OwnerNeeded, Invalid, TooMany."""
    made = await _fetch_value(conn, "select public.invite(%s, %s, %s, %s) as result", (org_id, role, email, days))
    return InvitationToken(UUID(made["id"]), made["token"])


async def invitations(conn: Connection, org_id: UUID, *, limit: int, before: str | None = None) -> ListPage[Invitation]:
    await check_owner(conn, org_id)
    request = PageRequest("invitations", limit, before)
    query = f"""
        select {_INVITATION} from public.invitations
        where {" and ".join(["org_id = %(org)s", *request.conditions()])}
        order by created_at desc, id desc limit %(limit)s"""
    return request.page(await fetch_all(conn, Invitation, query, {"org": org_id, **request.parameters()}))


async def setting_changes(
    conn: Connection, org_id: UUID, *, limit: int, before: str | None = None
) -> ListPage[SettingChange]:
    """Return a page of the changes to an organisation's settings, newest first. Raise OwnerNeeded."""
    await check_owner(conn, org_id)
    request = PageRequest("setting_changes", limit, before)
    query = f"""
        select id, setting, old, new, created_by, created_at from public.settings_journal
        where {" and ".join(["org_id = %(org)s", *request.conditions()])}
        order by created_at desc, id desc limit %(limit)s"""
    return request.page(await fetch_all(conn, SettingChange, query, {"org": org_id, **request.parameters()}))


async def invitation(conn: Connection, invitation_id: UUID) -> Invitation:
    """Return an invitation that is visible to the caller. Raise NotFound."""
    query = f"select {_INVITATION} from public.invitations where id = %s".encode()
    row = await fetch_one(conn, Invitation, query, (invitation_id,))
    if row is None:
        raise NotFound("The invitation does not exist.")
    return row


async def revoke_invitation(conn: Connection, invitation_id: UUID) -> None:
    """Revoke an invitation. Raise NotFound, InvitationUsed."""
    await conn.execute("select public.revoke_invitation(%s)", (invitation_id,))


@dataclass(frozen=True, slots=True)
class OfferedInvitation:
    """What an invitation offers: to become a member of an organisation with a role."""

    organisation: str
    role: MembershipRole
    expires_at: datetime


async def read_invitation(conn: Connection, token: str) -> OfferedInvitation:
    """Return what an invitation offers, if the caller may accept it. Raise NotFound, InvitationRevoked and others."""
    found = await _fetch_value(conn, "select public.read_invitation(%s) as result", (token,))
    return OfferedInvitation(
        found["organisation"], MembershipRole(found["role"]), datetime.fromisoformat(found["expires_at"])
    )


async def accept_invitation(conn: Connection, token: str) -> UUID:
    """Accept an invitation and return the organisation's id. Raise NotFound, InvitationUsed, InvitationRevoked,
    InvitationExpired, WrongInvitee, AlreadyMember."""
    accepted = await _fetch_value(conn, "select public.accept_invitation(%s) as result", (token,))
    return UUID(accepted["org_id"])


async def _fetch_value(conn: Connection, query: str, parameters: tuple[Any, ...]) -> Any:
    return await value_of(conn, query.encode(), parameters)
