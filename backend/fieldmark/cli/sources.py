"""`fieldmark source`: buckets and mailboxes whose files become documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import ask_password, print_json
from fieldmark.cli.process import FAILED, exit_with
from fieldmark.cli.tables import find_table
from fieldmark.cli.target import HelpedCommand, HelpedGroup, Target, command
from fieldmark.cli.terminal import show_lines, steps

source = typer.Typer(
    cls=HelpedGroup, help="Take documents from buckets and mailboxes: add, watch and remove them.", no_args_is_help=True
)
SourceId = Annotated[UUID, typer.Argument(metavar="source", help="The source's id, as shown by `source list`.")]


@source.command("add", cls=HelpedCommand)
@command()
def add_source(
    target: Target,
    address: Annotated[str, typer.Argument(help="https://host/bucket of S3-compatible storage, or imaps://host.")],
    username: Annotated[str, typer.Option("--username", help="The access key id, or the mailbox's user.")],
    folder: Annotated[str, typer.Option(help="Only names that begin with it; or a mailbox's folder.")] = "",
    extract: Annotated[str | None, typer.Option(help="Extract each document with this schema: name or id.")] = None,
    table: Annotated[str | None, typer.Option(help="Make each document a row of this stack or schema.")] = None,
) -> None:
    """Add a bucket or a mailbox. Its secret key, password or token request is asked for, or read from standard
    input."""
    kind = "mailbox" if address.lower().startswith("imaps:") else "bucket"
    body: dict[str, object] = {"kind": kind, "address": address, "username": username, "folder": folder}
    body["secret"] = ask_password()
    body |= {} if extract is None else {"extract": extract}

    async def add(client: Client) -> Any:
        found = {} if table is None else await find_table(client, table)
        if "schema_id" in found:
            body["stack_id"] = found["id"]
        if schema_id := found.get("schema_id", found.get("id")):
            body.setdefault("extract", schema_id)
        return await client.send("POST", "/api/sources", body)

    made = run_with_client(target, add)
    if not print_json(target, made):
        typer.echo(made["id"])
        steps().print(f"Added. See `fieldmark source status {made['id']}`.")


@source.command("list", cls=HelpedCommand)
@command()
def list_sources(target: Target) -> None:
    """List the sources of the organisation, newest first."""
    found = run_with_client(target, lambda client: client.get("/api/sources"))["items"]
    if not print_json(target, found):
        show_lines(
            ((one["id"], _state(one), f"{one['taken']} documents", one["address"]) for one in found), "No sources."
        )


@source.command("status", cls=HelpedCommand)
@command()
def show_status(target: Target, source_id: SourceId) -> None:
    """Show what was taken, what was skipped, and what could not be taken and why."""
    found = run_with_client(target, lambda client: client.get("/api/sources"))["items"]
    one = next((one for one in found if one["id"] == str(source_id)), None)
    if one is None:
        exit_with(f"There is no source {source_id}. `fieldmark source list` shows them.", FAILED)
    if not print_json(target, one):
        show_lines(_status_lines(one), "")


@source.command("check", cls=HelpedCommand)
@command()
def check_source(target: Target, source_id: SourceId) -> None:
    """Look at a source now, and try again what could not be taken."""
    checked = run_with_client(target, lambda client: client.send("POST", f"/api/sources/{source_id}/check"))
    if not print_json(target, checked):
        steps().print(f"The service looks now. See `fieldmark source status {source_id}`.")


@source.command("remove", cls=HelpedCommand)
@command()
def remove_source(target: Target, source_id: SourceId) -> None:
    """Remove a source. Its documents stay."""
    run_with_client(target, lambda client: client.send("DELETE", f"/api/sources/{source_id}"))
    steps().print("Source removed. Its documents stay.")


def _state(row: Mapping[str, Any]) -> str:
    if row["is_paused"]:
        return "paused"
    return row["error_code"] or ("reading" if row["checked_at"] is None else "ok")


def _status_lines(row: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("state", _state(row))
    yield ("taken", str(row["taken"]))
    yield from ((f"skipped: {reason}", str(number)) for reason, number in row["skipped"].items())
    yield ("tried again", str(row["retrying"]))
    yield ("abandoned", str(row["failed"]))
    for one in row["failures"]:
        yield ("failed", one["error_code"], f"{one['attempts']} attempts", one["name"])
