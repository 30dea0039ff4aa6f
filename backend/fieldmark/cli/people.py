"""`fieldmark key` and `fieldmark members`: keys for machines, and who belongs to an organisation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import asked
from fieldmark.cli.files import print_json
from fieldmark.cli.process import MISUSED, stop
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import show_lines, steps
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import MembershipRole

Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at the most.")]

key = typer.Typer(help="Make, list and revoke keys for machines.", no_args_is_help=True)
members = typer.Typer(help="List, invite, change and remove members.", no_args_is_help=True)


@key.command("create")
@command()
def create_key(
    target: Target,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scopes: Annotated[str, typer.Option(help=f"What it may do, with commas: {', '.join(Permission)}.")],
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="For how long; until it is revoked if left out.")
    ] = None,
) -> None:
    """Make a key and print it, this once, alone on standard output."""
    wanted = [one.strip() for one in scopes.split(",") if one.strip()]
    if unknown := [one for one in wanted if one not in list(Permission)]:
        stop(f"There is no scope {unknown[0]!r}. There are: {', '.join(Permission)}.", MISUSED)
    if not wanted:
        stop("A key needs a scope.", MISUSED)
    until = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    body = {"name": name, "scopes": wanted, "expires_at": until}
    made = asked(target, lambda client: client.send("POST", "/api/keys", body))
    if not print_json(target, made):
        typer.echo(made["key"])
        steps().print(f"Its id is {made['id']}. It is not shown again.")


@key.command("list")
@command()
def list_keys(target: Target, limit: Limit = 50) -> None:
    """List keys, newest first: an owner all of the organisation's, a member their own."""
    found = asked(target, lambda client: client.get("/api/keys", limit=limit))["items"]
    if print_json(target, found):
        return
    rows = ((row["id"], row["prefix"], _state(row), row["name"], ",".join(row["scopes"])) for row in found)
    show_lines(rows, "There are no keys.")


@key.command("revoke")
@command()
def revoke_key(
    target: Target, key_id: Annotated[UUID, typer.Argument(metavar="key", help="Its id, as `key list` shows it.")]
) -> None:
    """Revoke a key at once and everywhere, and cancel its open runs."""
    ended = asked(target, lambda client: client.send("DELETE", f"/api/keys/{key_id}"))
    _done(target, ended, "The key is revoked.")


@members.command("list")
@command()
def list_members(target: Target, limit: Limit = 50) -> None:
    """List members, those who joined last first."""
    found = asked(target, lambda client: client.of_organisation("GET", f"/members?limit={limit}"))["items"]
    if print_json(target, found):
        return
    rows = ((row["user_id"], f"{row['role']:<6}", row["email"] or "") for row in found)
    show_lines(rows, "There are no members.")


@members.command("invite")
@command()
def invite_member(
    target: Target,
    role: Annotated[MembershipRole, typer.Option(help="What they will be.")] = MembershipRole.MEMBER,
    email: Annotated[str | None, typer.Option(help="Only whose token names this address can accept.")] = None,
    days: Annotated[int, typer.Option(min=1, max=90, help="How long it holds.")] = 7,
) -> None:
    """Invite somebody: prints the token that they accept with, this once, alone on standard output."""
    body = {"role": role, "email": email, "days": days}
    made = asked(target, lambda client: client.of_organisation("POST", "/invitations", body))
    if not print_json(target, made):
        typer.echo(made["token"])
        steps().print(f"Its id is {made['id']}. It is accepted with POST /api/invitations/accept, and not shown again.")


@members.command("role")
@command()
def change_role(
    target: Target,
    member: Annotated[UUID, typer.Argument(help="Whose.")],
    role: Annotated[MembershipRole, typer.Argument(help="What they are from now on.")],
) -> None:
    """Make a member an owner, a member or a viewer."""
    now = asked(target, lambda client: client.of_organisation("PATCH", f"/members/{member}", {"role": role}))
    _done(target, now, f"They are now: {role}.")


@members.command("remove")
@command()
def remove_member(target: Target, member: Annotated[UUID, typer.Argument(help="Who goes. Their keys end.")]) -> None:
    """Remove a member."""
    asked(target, lambda client: client.of_organisation("DELETE", f"/members/{member}"))
    _done(target, {"user_id": str(member), "removed": True}, "They are a member no longer.")


def _done(target: Target, result: Mapping[str, Any], sentence: str) -> None:
    if not print_json(target, result):
        steps().print(sentence)


def _state(row: Mapping[str, Any]) -> str:
    if row["revoked_at"] is not None:
        return "revoked"
    if row["expires_at"] is not None and datetime.fromisoformat(row["expires_at"]) <= datetime.now(UTC):
        return "expired"
    if row["last_used_at"] is None:
        return "unused"
    return f"used {datetime.fromisoformat(row['last_used_at']).astimezone():%Y-%m-%d %H:%M}"
