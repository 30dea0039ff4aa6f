"""`fieldmark schema`: schemas that are kept by name; and how a command finds what it is told by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fieldmark.cli.client import Client, asked
from fieldmark.cli.files import json_of, print_json, read_schema, write
from fieldmark.cli.process import FAILED, stop
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import plain, show_lines, steps

schema = typer.Typer(help="Schemas that are kept by name, with their versions.", no_args_is_help=True)

Kind = Literal["schema", "prompt", "tag"]
Name = Annotated[str, typer.Argument(help="Its name, in capitals or not.")]


@schema.command("list")
@command()
def list_schemas(
    target: Target,
    name: Annotated[str | None, typer.Option(help="Only where this stands in the name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at the most.")] = 50,
) -> None:
    """List schemas, those that were made last first."""
    found = asked(target, lambda client: client.get("/api/schemas", name=name, limit=limit))["items"]
    if print_json(target, found):
        return
    rows = (
        (row["id"], f"version {row['number']:<4}", row["name"], "proposed" if row["proposed"] else "") for row in found
    )
    show_lines(rows, "There are no schemas.")


@schema.command("show")
@command()
def show_schema(
    target: Target,
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="This one of its versions, counted from 1.")] = None,
) -> None:
    """Print a schema, alone on standard output. With --json: what is known of it, too."""
    found = asked(target, lambda client: _version(client, name, version))
    if print_json(target, found):
        return
    steps().print(plain(f"{found['name']}, version {found['number']} ({found['schema_revid']})."))
    write(json_of(found["schema"], indented=True), None)


@schema.command("push")
@command()
def push_schema(
    target: Target,
    file: Annotated[Path, typer.Argument(help="A JSON Schema.")],
    name: Annotated[str | None, typer.Option(help="The name to keep it by; that of the file if left out.")] = None,
) -> None:
    """Keep a schema: a new one, or a new version of the one that has the name. Prints the version's id."""
    text = read_schema(file)
    wanted = file.stem.removesuffix(".schema") if name is None else name
    made, before = asked(target, lambda client: _push(client, wanted, text))
    if print_json(target, made):
        return
    typer.echo(made["schema_revid"])
    if before is None:
        told = f"A new schema: {made['name']}."
    elif before == made["number"]:
        told = f"Nothing has changed: {made['name']} is at version {before}."
    else:
        told = f"A new version of {made['name']}: {made['number']}."
    steps().print(plain(told))


async def find(client: Client, kind: Kind, name: str) -> dict[str, Any] | None:
    """What is kept by a name, in capitals or not."""
    items = (await client.get(f"/api/{kind}s", name=name))["items"]
    return items[0] if items else None


async def kept(client: Client, kind: Kind, name: str) -> dict[str, Any]:
    """What is kept by a name, in capitals or not. Ends the command where there is none."""
    return await find(client, kind, name) or stop(f"There is no {kind} {name!r}.", FAILED)


def is_file(text: str) -> bool:
    """Whether a text names a file rather than a kept schema: since it is there, or since it is spelt like one."""
    return os.sep in text or text.endswith(".json") or os.path.exists(text)  # noqa: PTH110 - Path raises for a long name


async def _version(client: Client, name: str, number: int | None) -> dict[str, Any]:
    found = await kept(client, "schema", name)
    if number is not None:
        path = f"/api/schemas/{found['id']}/versions"
        items = (await client.get(path, limit=1, before=number + 1))["items"]
        if not items or items[0]["number"] != number:
            stop(f"There is no version {number}: {found['name']} has {found['number']}.", FAILED)
        found = items[0]
    return await client.get(f"/api/schema_versions/{found['schema_revid']}")


async def _push(client: Client, name: str, text: object) -> tuple[dict[str, Any], int | None]:
    """The version that stands then, and the number of the one that stood before."""
    found = await find(client, "schema", name)
    if found is None:
        return await client.send("POST", "/api/schemas", {"name": name, "schema": text}), None
    return await client.send("PATCH", f"/api/schemas/{found['id']}", {"schema": text}), found["number"]
