"""`fieldmark key`: API keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import fetch_items, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.process import MISUSED, exit_with
from fieldmark.cli.target import HelpedCommand, HelpedGroup, Target, command
from fieldmark.cli.terminal import say_if_more, show_lines, steps
from fieldmark.domain.permissions import Permission

key = typer.Typer(cls=HelpedGroup, help="Create, list and revoke API keys.", no_args_is_help=True)


@key.command("create", cls=HelpedCommand)
@command()
def create_key(
    target: Target,
    name: Annotated[str, typer.Argument(help="A name for the key.")],
    scopes: Annotated[str, typer.Option(help=f"Its scopes, separated by commas: {', '.join(Permission)}.")],
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires. Default: never.")] = None,
) -> None:
    """Create an API key and print it to standard output. It is shown only once."""
    wanted = [one.strip() for one in scopes.split(",") if one.strip()]
    if unknown := [one for one in wanted if one not in list(Permission)]:
        exit_with(f"Unknown scope {unknown[0]!r}. Choose from: {', '.join(Permission)}.", MISUSED)
    if not wanted:
        exit_with("An API key needs at least one scope.", MISUSED)
    body = {"name": name, "scopes": wanted, "expires_in_seconds": None if days is None else days * 86_400}
    made = run_with_client(target, lambda client: client.send("POST", "/api/keys", body))
    if not print_json(target, made):
        typer.echo(made["key"])
        steps().print(f"Created key {made['id']}. Copy the secret now; it is not shown again.")


@key.command("list", cls=HelpedCommand)
@command()
def list_keys(
    target: Target, limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 50
) -> None:
    """List keys, newest first: owners see all keys, members their own."""
    found, is_more = run_with_client(target, lambda client: fetch_items(client, "/api/keys", limit, {}))
    say_if_more(found, is_more)
    if print_json(target, found):
        return
    rows = ((row["id"], row["prefix"], _state(row), row["name"], ",".join(row["scopes"])) for row in found)
    show_lines(rows, "No keys.")


@key.command("revoke", cls=HelpedCommand)
@command()
def revoke_key(
    target: Target, key_id: Annotated[UUID, typer.Argument(metavar="key", help="The key id, as shown by `key list`.")]
) -> None:
    """Revoke a key and cancel its open runs."""
    ended = run_with_client(target, lambda client: client.send("DELETE", f"/api/keys/{key_id}"))
    if not print_json(target, ended):
        steps().print("Key revoked.")


def _state(row: Mapping[str, Any]) -> str:
    if row["revoked_at"] is not None:
        return "revoked"
    if row["is_expired"]:
        return "expired"
    if row["last_used_at"] is None:
        return "unused"
    return f"used {datetime.fromisoformat(row['last_used_at']).astimezone():%Y-%m-%d %H:%M}"
