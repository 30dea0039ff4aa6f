"""`fieldmark key` and `fieldmark members`: keys for machines, and who belongs to an organisation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from fieldmark.cli.process import FAILED, LOCAL_USER, MISUSED, at_once, opened, read_settings, run, stop
from fieldmark.cli.terminal import err, out, plain
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import MembershipRole
from fieldmark.errors import Conflict, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from fieldmark.db.pool import Connection
    from fieldmark.stores.api_keys import ApiKeyRow

User = Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")]
Org = Annotated[UUID | None, typer.Option(help="In which organisation; in their personal one if left out.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]

key = typer.Typer(help="Make, list and revoke keys for machines.", no_args_is_help=True)
members = typer.Typer(help="List, invite, change and remove members.", no_args_is_help=True)


@key.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scopes: Annotated[str, typer.Option(help=f"What it may do, with commas: {', '.join(Permission)}.")],
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="For how long; until it is revoked if left out.")
    ] = None,
    org: Org = None,
    user: User = LOCAL_USER,
) -> None:
    """Make a key and print it, this once, alone on standard output."""
    asked = [one.strip() for one in scopes.split(",") if one.strip()]
    if unknown := [one for one in asked if one not in list(Permission)]:
        stop(f"There is no scope {unknown[0]!r}. There are: {', '.join(Permission)}.", MISUSED)
    if not asked:
        stop("A key needs a scope.", MISUSED)
    run(_create_key(name, asked, None if days is None else datetime.now(UTC) + timedelta(days=days), user, org))


@key.command("list")
def list_keys(limit: Limit = 50, org: Org = None, user: User = LOCAL_USER) -> None:
    """List keys, newest first: an owner all of the organisation's, a member their own."""
    run(_list_keys(limit, user, org))


@key.command("revoke")
def revoke_key(
    key_id: Annotated[UUID, typer.Argument(metavar="key", help="Its id, as `key list` shows it.")],
    org: Org = None,
    user: User = LOCAL_USER,
) -> None:
    """End a key, and those that it has made, at once and everywhere."""
    run(_revoke_key(key_id, user, org))


@members.command("list")
def list_members(limit: Limit = 50, org: Org = None, user: User = LOCAL_USER) -> None:
    """List members, those who joined last first."""
    run(_list_members(limit, user, org))


@members.command("invite")
def invite_member(
    role: Annotated[MembershipRole, typer.Option(help="What they will be.")] = MembershipRole.MEMBER,
    email: Annotated[str | None, typer.Option(help="Only whose token names this address can accept.")] = None,
    days: Annotated[int, typer.Option(min=1, max=90, help="How long it holds.")] = 7,
    org: Org = None,
    user: User = LOCAL_USER,
) -> None:
    """Invite somebody: prints the token that they accept with, this once, alone on standard output."""
    run(_invite(role, email, days, user, org))


@members.command("role")
def change_role(
    member: Annotated[UUID, typer.Argument(help="Whose.")],
    role: Annotated[MembershipRole, typer.Argument(help="What they are from now on.")],
    org: Org = None,
    user: User = LOCAL_USER,
) -> None:
    """Make a member an owner, a member or a viewer."""
    run(_change_role(member, role, user, org))


@members.command("remove")
def remove_member(
    member: Annotated[UUID, typer.Argument(help="Who goes. Their keys end.")],
    org: Org = None,
    user: User = LOCAL_USER,
) -> None:
    """Remove a member."""
    run(_remove_member(member, user, org))


@asynccontextmanager
async def _acting(user: UUID, org: UUID | None) -> AsyncGenerator[tuple[Connection, UUID]]:
    """A transaction of the user's, and the organisation that it is in. What is refused ends the command."""
    try:
        async with (
            opened(at_once(read_settings("warning")), user, org) as (runtime, scope),
            runtime.database.as_user(scope) as conn,
        ):
            yield conn, scope.org_id
    except (NotFound, Forbidden, Conflict, Invalid) as fault:
        stop(str(fault), FAILED)


def _show(rows: Iterable[tuple[object, ...]], none: str) -> None:
    """Lines and no table: a narrow terminal breaks them, and what reads a pipe gets them whole."""
    shown = False
    for cells in rows:
        out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
        shown = True
    if not shown:
        err.print(none)


async def _create_key(name: str, scopes: list[str], expires_at: datetime | None, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import api_keys

    async with _acting(user, org) as (conn, org_id):
        made = await api_keys.add(conn, org_id, name=name, scopes=scopes, expires_at=expires_at)
    typer.echo(made.key)
    err.print(f"Its id is {made.id}. It is not shown again.")


async def _list_keys(limit: int, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import api_keys

    async with _acting(user, org) as (conn, org_id):
        rows = await api_keys.list_keys(conn, org_id, limit=limit, after=None)
    _show(((row.id, row.prefix, _state(row), row.name, ",".join(row.scopes)) for row in rows), "There are no keys.")


def _state(row: ApiKeyRow) -> str:
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is not None and row.expires_at <= datetime.now(UTC):
        return "expired"
    return "unused" if row.last_used_at is None else f"used {row.last_used_at.astimezone():%Y-%m-%d %H:%M}"


async def _revoke_key(key_id: UUID, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import api_keys

    async with _acting(user, org) as (conn, _):
        await api_keys.revoke(conn, key_id)
    err.print("The key is revoked.")


async def _list_members(limit: int, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import organisations

    async with _acting(user, org) as (conn, org_id):
        rows = await organisations.members(conn, org_id, limit=limit, after=None)
    _show(((row.id, f"{row.role:<6}", row.email or "") for row in rows), "There are no members.")


async def _invite(role: MembershipRole, email: str | None, days: int, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import organisations

    async with _acting(user, org) as (conn, org_id):
        made = await organisations.invite(conn, org_id, role=role, email=email, days=days)
    typer.echo(made.token)
    err.print(f"Its id is {made.id}. It is accepted with POST /api/invitations/accept, and not shown again.")


async def _change_role(member: UUID, role: MembershipRole, user: UUID, org: UUID | None) -> None:
    from fieldmark.services import organisations

    async with _acting(user, org) as (conn, org_id):
        if (await organisations.get(conn, org_id)).role is not MembershipRole.OWNER:
            raise Forbidden("Only an owner of the organisation can do this.")
        await organisations.set_role(conn, org_id, member, role)
    err.print(f"They are now: {role}.")


async def _remove_member(member: UUID, user: UUID, org: UUID | None) -> None:
    from fieldmark.stores import organisations

    async with _acting(user, org) as (conn, org_id):
        await organisations.remove(conn, org_id, member)
    err.print("They are a member no longer.")
